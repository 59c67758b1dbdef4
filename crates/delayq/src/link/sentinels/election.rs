//! The sentinels' views of a master, and the resulting term.

use super::views::{Answered, Said, View, answered, elect, voters};
use crate::link::node::Node;
use crate::link::term::Term;
use std::sync::{Mutex, MutexGuard};
use tokio::sync::watch;

/// Written by the tasks that follow the sentinels, read by connecting callers.
pub(super) struct Election {
    service: String,
    views: watch::Sender<Vec<View>>,
    /// The round of questions; from 1.
    round: watch::Sender<u64>,
    term: Mutex<Option<Term>>,
}

// === impl Election ===

impl Election {
    pub(super) fn new(service: String, nodes: &[Node]) -> Self {
        let views = nodes.iter().cloned().map(View::new).collect();
        let (views, round) = (watch::Sender::new(views), watch::Sender::new(1));
        Self { service, views, round, term: Mutex::new(None) }
    }

    pub(super) fn service(&self) -> &str {
        &self.service
    }

    pub(super) fn views(&self) -> Vec<View> {
        self.views.borrow().clone()
    }

    pub(super) fn term(&self) -> Option<Term> {
        self.slot().clone()
    }

    pub(super) fn round(&self) -> u64 {
        *self.round.borrow()
    }

    pub(super) fn rounds(&self) -> watch::Receiver<u64> {
        self.round.subscribe()
    }

    pub(super) fn raise_round(&self) {
        self.round.send_modify(|round| *round += 1);
    }

    pub(super) async fn until(&self, round: u64, enough: impl Fn(Answered) -> bool) -> Answered {
        let mut views = self.views.subscribe();
        let views = views.wait_for(|views| enough(answered(views, round))).await;
        answered(&views.expect("the sender is this election's own"), round)
    }

    /// The term ends when a majority of all sentinels names another master.
    pub(super) fn note(&self, index: usize, round: u64, news: Result<Said, String>) {
        let mut slot = self.slot();
        let mut elected = None;
        self.views.send_modify(|views| {
            let view = &mut views[index];
            self.tell(view, &news);
            (view.round, view.news) = (round, news);
            elected = elect(views.iter(), views.len());
        });
        if let Some((master, epoch)) = elected {
            self.begin(&mut slot, master, epoch);
        }
    }

    /// Has the answering sentinels elect a master, unless a master is known.
    pub(super) fn elect(&self) {
        let mut slot = self.slot();
        let views = self.views.borrow();
        if slot.is_none()
            && let Some((master, epoch)) = elect(views.iter(), voters(&views))
        {
            self.begin(&mut slot, master, epoch);
        }
    }

    fn begin(&self, slot: &mut Option<Term>, master: Node, epoch: u64) {
        *slot = Some(match slot.take() {
            Some(term) if term.master == master => term,
            Some(term) => {
                tracing::warn!(service = %self.service, was = %term.master, %master, epoch, "the sentinels name another master");
                term.end();
                Term::new(master)
            }
            None => Term::new(master),
        });
    }

    /// Logs a sentinel that no longer answers, and a sentinel that answers again.
    fn tell(&self, view: &View, news: &Result<Said, String>) {
        let (service, sentinel) = (&self.service, &view.node);
        match (&view.news, news) {
            (Ok(_), Err(why)) => tracing::warn!(%service, %sentinel, %why, "a sentinel cannot be used"),
            (Err(_), Err(why)) if view.round == 0 => {
                tracing::warn!(%service, %sentinel, %why, "a sentinel cannot be used");
            }
            (Err(_), Ok(_)) if view.round > 0 => {
                tracing::info!(%service, %sentinel, "a sentinel answers again");
            }
            _ => {}
        }
    }

    fn slot(&self) -> MutexGuard<'_, Option<Term>> {
        self.term.lock().expect("no code panics while holding the lock")
    }
}
