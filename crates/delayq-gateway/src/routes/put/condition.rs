//! What has to be under the id of a put: `If-Match` and `If-None-Match`, which Redis judges together with the put.

use crate::input::Ask;
use crate::problem::{Kind, Problem};
use crate::routes::message::Payload;
use crate::state::Scope;
use delayq::admin::Tag;
use delayq::protocol::ExpectedGen;
use delayq::{Message, Put, PutOutcome, Target, Topic};
use delayq_service::json::put as json_of;

const PRESENT: &str = "if-match";
const ABSENT: &str = "if-none-match";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    Unconditional,
    /// No message is known.
    Absent,
    /// The message has this tag; or any.
    Present(Option<Tag>),
}

// === impl Condition ===

impl Condition {
    pub(super) fn of(ask: &Ask) -> Result<Self, Problem> {
        match (ask.header(PRESENT)?, ask.header(ABSENT)?.map(str::trim)) {
            (None, None) => Ok(Self::Unconditional),
            (None, Some("*")) => Ok(Self::Absent),
            (Some(_), None) => Ok(Self::Present(ask.expected()?)),
            (None, Some(_)) => Err(Problem::invalid(ABSENT, "must be *: no message is known under the id")),
            (Some(_), Some(_)) => Err(Problem::invalid(ABSENT, "never holds together with If-Match")),
        }
    }

    pub(super) fn on(self, message: Message) -> Result<Message, Problem> {
        match self {
            Self::Absent if message.replace => {
                Err(Problem::invalid(ABSENT, "nothing is to be there, so nothing is replaced"))
            }
            Self::Unconditional | Self::Absent => Ok(message),
            Self::Present(None) => Ok(message.expecting(ExpectedGen::Any)),
            Self::Present(Some(tag)) => {
                Ok(message.expecting(tag.due).expecting(ExpectedGen::Is(tag.generation)))
            }
        }
    }

    /// Refuses a put whose condition did not hold, with the tag of what is there. A leased message stays a conflict, as without
    /// a condition.
    pub(super) async fn judge(self, scope: &Scope, topic: &Topic, put: &Put) -> Result<(), Problem> {
        let is_unmet = match self {
            Self::Unconditional => false,
            Self::Absent => matches!(put.outcome, PutOutcome::Exists(..) | PutOutcome::Conflict(..)),
            Self::Present(_) => matches!(put.outcome, PutOutcome::Changed(..) | PutOutcome::Unknown),
        };
        if !is_unmet {
            return Ok(());
        }
        let mut answer = json_of(&put.reference, &put.outcome);
        let target = Target { id: put.reference.id.clone(), group: put.reference.group.clone() };
        if let Some(listed) = scope.get(topic, &target).await? {
            answer["tag"] = Payload::None.shown(&listed)["tag"].clone();
        }
        Err(Problem::outcome(Kind::Changed, answer))
    }
}
