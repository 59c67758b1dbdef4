//! What a handler has done.

use delayq_core::message::Message;

/// A handled message: finished, and followed by the next message, if the handler returns one. The ack puts the next message in
/// the same step, as [`Delivery::ack_and_put`](crate::Delivery::ack_and_put). `()` and a [`Message`] become one by `into`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    pub(super) next: Option<Message>,
}

impl From<()> for Done {
    fn from((): ()) -> Self {
        Self::default()
    }
}

impl From<Message> for Done {
    fn from(next: Message) -> Self {
        Some(next).into()
    }
}

impl From<Option<Message>> for Done {
    fn from(next: Option<Message>) -> Self {
        Self { next }
    }
}
