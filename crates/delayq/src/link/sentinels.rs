//! The sentinels of a master, each followed on a separate connection, and the master elected from the answers.
//!
//! A [`Term`] is the time during which one Redis is the master. A term ends as soon as most of the sentinels name
//! another master; connections of an ended term are not used again. A client that doubts the master raises the round:
//! each sentinel is then asked again at once, and only answers of that round count.

mod election;
mod following;
mod views;

pub use following::sentinel_rule;
pub use views::SentinelFacts;

use super::sentinel_url::SentinelUrl;
use super::settings::LinkSettings;
use super::term::Term;
use election::Election;
use following::Following;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;
use views::{Answered, View, told};

/// Extra time, after the first sentinel's answer, to wait for more recent answers of other sentinels.
const PATIENCE: Duration = Duration::from_millis(250);

/// Followed from the first question until this value is dropped.
pub(crate) struct Sentinels {
    url: SentinelUrl,
    settings: LinkSettings,
    election: Arc<Election>,
    following: Mutex<Vec<AbortOnDropHandle<()>>>,
}

/// The answer of one sentinel.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SentinelReport {
    /// The sentinel's address.
    pub address: String,
    /// The master that the sentinel names with further facts, or the reason for a missing answer.
    pub said: Result<(String, SentinelFacts), String>,
}

// === impl Sentinels ===

impl Sentinels {
    pub(super) fn new(url: SentinelUrl, settings: LinkSettings) -> Self {
        let election = Arc::new(Election::new(url.service.clone(), &url.nodes));
        Self { url, settings, election, following: Mutex::default() }
    }

    pub(super) fn url(&self) -> &SentinelUrl {
        &self.url
    }

    /// Makes only answers to newer questions count.
    pub(super) fn doubt(&self) {
        self.election.raise_round();
    }

    /// Returns the present master. At least one sentinel answers now.
    ///
    /// # Errors
    /// No sentinel answers, or the answering sentinels differ and no master is known; the text holds each sentinel's
    /// answer.
    pub(super) async fn term(&self) -> Result<Term, String> {
        let heard = matches!(self.hear().await, Answered::Well | Answered::Partly);
        if heard {
            self.election.elect();
        }
        let term = self.election.term().filter(|_| heard);
        let who = if heard { "the sentinels do not agree on the" } else { "no sentinel names the" };
        let service = &self.url.service;
        term.ok_or_else(|| format!("{who} master of {service}: {}", told(&self.election.views())))
    }

    pub(super) async fn report(&self) -> Vec<SentinelReport> {
        self.doubt();
        self.hear().await;
        let report = |view: View| SentinelReport {
            address: view.node.to_string(),
            said: view.news.map(|said| (said.master.to_string(), said.facts)),
        };
        self.election.views().into_iter().map(report).collect()
    }

    async fn hear(&self) -> Answered {
        self.follow();
        let round = self.election.round();
        let at_all = self.election.until(round, |answered| answered != Answered::NotYet);
        // By then, sentinels that hang are given up, each with its reason.
        if timeout(self.settings.connect_timeout + PATIENCE, at_all).await.is_err() {
            return Answered::NotYet;
        }
        let settled = |answered| matches!(answered, Answered::Well | Answered::ByNone);
        match timeout(PATIENCE, self.election.until(round, settled)).await {
            Ok(answered) => answered,
            Err(_) => Answered::Partly,
        }
    }

    /// Follows each sentinel, unless the tasks already run. A runtime that ended has aborted its tasks.
    fn follow(&self) {
        let mut following = self.following.lock().expect("no code panics while holding the lock");
        if !following.is_empty() && !following.iter().any(AbortOnDropHandle::is_finished) {
            return;
        }
        let start = |(index, node)| {
            let follow = Following::new(index, node, self.settings.clone(), Arc::clone(&self.election));
            AbortOnDropHandle::new(tokio::spawn(follow.run()))
        };
        *following = self.url.nodes.clone().into_iter().enumerate().map(start).collect();
    }
}
