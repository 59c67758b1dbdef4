//! Keeps the registration in etcd equal to the member's desired registration.

use crate::backoff::Backoff;
use crate::etcd::Fence;
use crate::membership::{Base, Desired, LONGEST_PAUSE, Leaving, Session, Standing};
use std::sync::Arc;
use tokio::sync::watch;
use tokio::time::sleep;

pub(crate) struct Registrar {
    base: Base,
    desired: watch::Receiver<Desired>,
    standing: watch::Receiver<Standing>,
    leaving: Leaving,
    /// The life that was registered last, and the contents of its registration.
    written: Option<(Arc<Session>, Desired)>,
    backoff: Backoff,
}

// === impl Registrar ===

impl Registrar {
    pub(crate) fn new(
        base: Base,
        desired: watch::Receiver<Desired>,
        standing: watch::Receiver<Standing>,
        leaving: Leaving,
    ) -> Self {
        let backoff = Backoff::up_to(LONGEST_PAUSE);
        Self { base, desired, standing, leaving, written: None, backoff }
    }

    pub(crate) async fn run(mut self) {
        loop {
            let wanted = self.desired.borrow_and_update().clone();
            let session = self.standing.borrow_and_update().session.clone();
            self.meet(session);
            if self.says(&wanted) {
                tokio::select! {
                    biased;
                    _ = self.leaving.changed() => return,
                    Ok(()) = self.desired.changed() => continue,
                    Ok(()) = self.standing.changed() => continue,
                    else => return,
                }
            }
            tokio::select! {
                biased;
                _ = self.leaving.changed() => return,
                () = Self::write(&self.base, &mut self.written, &mut self.backoff, wanted) => {}
            }
        }
    }

    /// Notes the registration that a new life wrote while enrolling.
    fn meet(&mut self, session: Option<Arc<Session>>) {
        let known = self.written.as_ref().map(|(known, _)| &known.member);
        if known != session.as_ref().map(|session| &session.member) {
            self.written = session.map(|session| (session.clone(), session.registered.clone()));
        }
    }

    fn says(&self, wanted: &Desired) -> bool {
        self.written.as_ref().is_none_or(|(_, registered)| registered == wanted)
    }

    async fn write(
        base: &Base,
        written: &mut Option<(Arc<Session>, Desired)>,
        backoff: &mut Backoff,
        wanted: Desired,
    ) {
        let Some((session, registered)) = written else { return };
        let key = base.keys.member(&session.member);
        let fence = [Fence::Created(key.clone(), session.rank)];
        let document = base.registration(&wanted, session.since_ms).to_json();
        match base.link.write(&fence, &key, document, session.lease).await {
            Ok(Some(_)) => {
                *registered = wanted;
                backoff.reset();
            }
            // The registration is gone, or etcd did not answer: the keeper of the lease finds out which; until then,
            // try again.
            Ok(None) | Err(_) => sleep(backoff.next()).await,
        }
    }
}
