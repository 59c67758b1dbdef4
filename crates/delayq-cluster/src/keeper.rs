//! Keeps the lease alive, publishes the trust in the lease, and begins a new life when etcd answers that the lease is
//! gone.

use crate::backoff::Backoff;
use crate::etcd::{EtcdError, KeepAlive};
use crate::membership::{Base, Desired, LONGEST_PAUSE, Leaving, SHORT_PAUSE, Session, Standing, until};
use crate::trust::{Signal, Trust, keep_alive_every};
use std::future::{Future, pending};
use std::pin::Pin;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

pub(crate) struct Keeper {
    base: Base,
    desired: watch::Receiver<Desired>,
    standing: watch::Sender<Standing>,
    /// Leases that another task found missing in etcd.
    missed: mpsc::UnboundedReceiver<i64>,
    leaving: Leaving,
}

type Renewal = Pin<Box<dyn Future<Output = Result<Renewed, EtcdError>> + Send>>;

struct Renewed {
    open: Box<KeepAlive>,
    sent: Instant,
    ttl: Duration,
}

enum Event {
    Renewed(Result<Renewed, EtcdError>),
    RenewalDue,
    TrustEnds,
    Missed(i64),
    /// The next round has something to check.
    Nothing,
    Drain,
    Leave,
    Abandoned,
}

enum Over {
    Lost,
    Left,
    Abandoned,
}

// === impl Keeper ===

impl Keeper {
    pub(crate) fn new(
        base: Base,
        desired: watch::Receiver<Desired>,
        standing: watch::Sender<Standing>,
        missed: mpsc::UnboundedReceiver<i64>,
        leaving: Leaving,
    ) -> Self {
        Self { base, desired, standing, missed, leaving }
    }

    pub(crate) async fn run(mut self) {
        loop {
            let session = self.standing.borrow().session.clone();
            let over = match session {
                Some(session) => self.keep(&session).await,
                None => self.come_back().await,
            };
            match over {
                Some(Over::Left) => return self.signal(Signal::Leave),
                Some(Over::Abandoned) => return,
                Some(Over::Lost) | None => {}
            }
        }
    }

    async fn keep(&mut self, session: &Session) -> Option<Over> {
        let every = keep_alive_every(session.ttl);
        let mut due = session.sent + every;
        let mut backoff = Backoff::up_to(every.min(SHORT_PAUSE));
        let mut stream: Option<Box<KeepAlive>> = None;
        let mut renewal: Option<Renewal> = None;
        let over = loop {
            match self.next_event(renewal.as_mut(), due).await {
                Event::RenewalDue => renewal = Some(self.renew(session, stream.take())),
                Event::Renewed(Ok(Renewed { open, sent, ttl })) => {
                    (renewal, stream) = (None, Some(open));
                    due = sent + every;
                    backoff.reset();
                    self.signal(Signal::Answered { sent, ttl });
                }
                Event::Renewed(Err(EtcdError::LeaseGone)) => break Over::Lost,
                Event::Renewed(Err(_)) => {
                    renewal = None;
                    due = Instant::now() + backoff.next();
                }
                Event::TrustEnds => self.signal(Signal::Tick),
                Event::Missed(lease) if lease == session.lease => break Over::Lost,
                Event::Missed(_) | Event::Nothing => {}
                Event::Drain => self.signal(Signal::Drain),
                Event::Leave => break Over::Left,
                Event::Abandoned => return Some(Over::Abandoned),
            }
        };
        self.end(session, &over).await;
        let left = matches!(self.standing.borrow().trust, Trust::Left);
        Some(if left { Over::Left } else { over })
    }

    /// Notifies the other tasks first, then gives the lease back, even if etcd has lost only the lease or only the
    /// registration.
    async fn end(&mut self, session: &Session, over: &Over) {
        match over {
            Over::Lost => {
                tracing::warn!(
                    member = %session.member,
                    "the lease or the registration is gone from etcd: releasing every shard and joining again"
                );
                self.base.counters.count(|stats| stats.leases_lost += 1);
                self.signal(Signal::Gone);
            }
            Over::Left | Over::Abandoned => self.signal(Signal::Leave),
        }
        if let Err(error) = self.base.link.revoke(session.lease).await {
            tracing::warn!(member = %session.member, ?error, "cannot revoke the lease; it will expire");
        }
    }

    async fn next_event(&mut self, renewal: Option<&mut Renewal>, due: Instant) -> Event {
        let trust = self.standing.borrow().trust;
        let draining = self.desired.borrow().draining && !matches!(trust, Trust::Draining { .. });
        if draining {
            return Event::Drain;
        }
        let (renewing, renewed) = match renewal {
            Some(renewal) => (true, Some(renewal)),
            None => (false, None),
        };
        tokio::select! {
            biased;
            changed = self.leaving.changed() => if changed.is_ok() { Event::Leave } else { Event::Abandoned },
            answer = or_never(renewed) => Event::Renewed(answer),
            Some(lease) = self.missed.recv() => Event::Missed(lease),
            () = until(trust.ends_at()) => Event::TrustEnds,
            () = sleep_until(due), if !renewing => Event::RenewalDue,
            Ok(()) = self.desired.changed() => Event::Nothing,
        }
    }

    fn renew(&self, session: &Session, stream: Option<Box<KeepAlive>>) -> Renewal {
        let base = self.base.clone();
        let (lease, granted) = (session.lease, session.ttl);
        Box::pin(async move {
            let sent = Instant::now();
            base.counters.count(|stats| stats.keep_alives += 1);
            let Some(mut open) = stream else {
                // Opening keeps the lease alive once. The answer lacks the time to live, but a lease is always renewed
                // for the granted time.
                let open = Box::new(base.link.keep_alive(lease).await?);
                return Ok(Renewed { open, sent, ttl: granted });
            };
            match open.renew().await {
                Ok(ttl) => Ok(Renewed { open, sent, ttl }),
                Err(error) => {
                    if error != EtcdError::LeaseGone {
                        base.link.turn_away(open.turn(), &error).await;
                    }
                    Err(error)
                }
            }
        })
    }

    async fn come_back(&mut self) -> Option<Over> {
        let mut backoff = Backoff::up_to(LONGEST_PAUSE);
        loop {
            if self.desired.borrow().draining {
                self.signal(Signal::Drain);
                return Some(Over::Left);
            }
            let desired = self.desired.borrow_and_update().clone();
            let base = self.base.clone();
            // Not cut short by a drain: a registration must be given back.
            let enrolled = tokio::select! {
                changed = self.leaving.changed() => return Some(left_or_abandoned(changed.is_ok())),
                enrolled = base.enroll(&desired) => enrolled,
            };
            match enrolled {
                Ok(session) => {
                    tracing::info!(member = %session.member, "joined the fleet with a new lease");
                    self.standing.send_replace(Standing::enrolled(session));
                    return None;
                }
                Err(error) => tracing::debug!(?error, "no lease yet"),
            }
            tokio::select! {
                changed = self.leaving.changed() => return Some(left_or_abandoned(changed.is_ok())),
                Ok(_) = self.desired.wait_for(|desired| desired.draining) => {}
                () = sleep(backoff.next()) => {}
            }
        }
    }

    fn signal(&self, signal: Signal) {
        let now = Instant::now();
        let before = self.standing.borrow().trust;
        let trust = before.after(signal, now);
        if !trust.same_kind(&before) {
            if matches!(trust, Trust::Degraded { .. }) {
                self.base.counters.count(|stats| stats.degraded += 1);
                tracing::error!("degraded: no reply from etcd, and the lease may have expired");
            } else {
                tracing::info!(from = before.name(), to = trust.name(), "standing with etcd");
            }
        }
        self.standing.send_if_modified(|standing| {
            let changed = standing.trust != trust;
            standing.trust = trust;
            // In one step: no task may see an ended lease that still counts.
            if matches!(trust, Trust::Lost { .. } | Trust::Left) {
                standing.session = None;
            }
            changed
        });
    }
}

fn left_or_abandoned(left: bool) -> Over {
    if left { Over::Left } else { Over::Abandoned }
}

async fn or_never<F: Future + Unpin>(future: Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => pending().await,
    }
}
