//! The admission of a sender to a long request: lost if the token is revoked or ends, the session ends, or the right is gone.

use crate::problem::{Kind, Problem};
use crate::rights::Right;
use crate::sessions::{Caller, Sessions};
use crate::token::Hash;
use crate::tokens::Tokens;
use axum::http::HeaderMap;
use delayq::UnixMillis;
use delayq_service::host_now;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Interval of looks at a session, which may end at any gateway.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Longest time without a readable session.
const STALE: Duration = Duration::from_secs(5);

/// A sender that the guard has admitted.
#[derive(Clone)]
pub(crate) struct Admission {
    tokens: Tokens,
    sessions: Sessions,
    caller: Caller,
    proof: Proof,
    /// The route, and the right for the route.
    need: (&'static str, Right),
}

#[derive(Clone, Debug)]
pub(crate) enum Proof {
    /// No token is needed.
    None,
    Token(Hash),
    /// The headers with the cookie.
    Session(HeaderMap),
}

// === impl Admission ===

impl Admission {
    pub(crate) fn new(
        (tokens, sessions): (&Tokens, &Sessions),
        caller: &Caller,
        proof: Proof,
        need: (&'static str, Right),
    ) -> Self {
        Self { tokens: tokens.clone(), sessions: sessions.clone(), caller: caller.clone(), proof, need }
    }

    pub(crate) fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Waits until the admission is lost, and returns why. Changes of tokens are told, so a stream with a token looks at nothing.
    pub(crate) async fn lost(&self) -> Problem {
        let mut changes = self.tokens.tenants().changes();
        let mut read = Instant::now();
        loop {
            let asked = Instant::now();
            match self.present().await {
                Ok(()) => read = asked,
                Err(problem) if self.may_be_stale(&problem) && read.elapsed() < STALE => {}
                Err(problem) => return problem,
            }
            tokio::select! {
                _ = changes.changed() => {}
                () = self.next_look() => {}
            }
        }
    }

    async fn present(&self) -> Result<(), Problem> {
        let caller = match &self.proof {
            Proof::None => return Ok(()),
            Proof::Token(hash) => self.tokens.as_read(hash)?.map(Caller::of),
            Proof::Session(headers) => self.sessions.caller(headers).await?,
        };
        let same = caller.filter(|caller| caller.tenant == self.caller.tenant);
        let ended = || Problem::new(Kind::NoToken, "the token has ended");
        let (what, right) = self.need;
        same.ok_or_else(ended)?.must(right, what)
    }

    fn may_be_stale(&self, problem: &Problem) -> bool {
        matches!(self.proof, Proof::Session(_)) && problem.kind() == Kind::RedisAway
    }

    async fn next_look(&self) {
        match (&self.proof, self.caller.until) {
            (Proof::Session(_), _) => sleep(LOOK_EVERY).await,
            (Proof::Token(_), Some(until)) => sleep(ahead(until)).await,
            _ => std::future::pending().await,
        }
    }
}

fn ahead(until: UnixMillis) -> Duration {
    Duration::from_millis(until.get().saturating_sub(host_now().get()).max(1))
}
