//! Reserving and settling. Receipts are signed with a key of the tenant: a receipt of another tenant has a wrong signature.

use super::Scope;
use crate::dispatch::{Handed, Poll, WantedKind};
use crate::problem::Problem;
use crate::receipts::Signer;
use delayq::Topic;
use delayq::protocol::Holder;

// === impl Scope ===

impl Scope {
    pub(crate) async fn signer(&self) -> Result<Signer, Problem> {
        let signer = self.answer(self.app.unscoped().receipts.signer().await)?;
        Ok(match self.names.tenant() {
            None => signer,
            Some(tenant) => signer.of(&format!("receipts of {tenant}")),
        })
    }

    /// See [`crate::dispatch::Dispatcher::reserve`].
    pub(crate) async fn reserve(&self, mut poll: Poll) -> Result<Option<Handed>, Problem> {
        poll.wanted.kind = self.stored_kind(poll.wanted.kind)?;
        self.reserve_stored(poll).await
    }

    /// Names topics as Redis has them, and the tenant.
    pub(crate) fn stored_kind(&self, mut kind: WantedKind) -> Result<WantedKind, Problem> {
        kind.tenant = self.names.tenant().cloned();
        let stored = kind.topics.iter().map(|topic| self.names.stored_topic(topic));
        kind.topics = stored.collect::<Result<Vec<Topic>, _>>()?;
        Ok(kind)
    }

    /// As [`Self::reserve`], for what [`Self::stored_kind`] has named.
    pub(crate) async fn reserve_stored(&self, poll: Poll) -> Result<Option<Handed>, Problem> {
        // The dispatcher counts what is under way for all reserves of the tenant.
        self.yield_turn();
        let mut handed = self.answer(self.app.unscoped().dispatcher.reserve(poll).await)?;
        if let Some(handed) = &mut handed {
            handed.messages_mut().iter_mut().for_each(|message| self.names.show(message));
        }
        Ok(handed)
    }

    /// For receipts that [`Self::signer`] has read.
    pub(crate) fn holder(&self) -> &Holder {
        &self.app.unscoped().holder
    }
}
