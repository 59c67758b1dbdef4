//! The deployment behind a sentinel master: a new master that keeps another deployment is not followed.
//!
//! The first master counts, and so does each later master that keeps the same deployment. If the last known master
//! itself has another deployment, the deployment was lost there and created again.

use super::node::Node;
use delayq_core::identity::DeploymentId;
use delayq_core::keys::Keys;
use delayq_core::shard::ShardId;
use redis::{Cmd, FromRedisValue, Value, cmd};
use std::sync::Mutex;

/// Maximum number of shards to check; a node may have given some shards away.
const MOST: usize = 8;

/// The shards by which a deployment is recognised, and the deployment seen last.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    metas: Vec<Vec<u8>>,
    seen: Mutex<Option<Seen>>,
}

#[derive(Clone, Debug)]
struct Seen {
    identity: DeploymentId,
    master: Node,
}

// === impl Marks ===

impl Marks {
    /// The first few shards of a Redis.
    pub(crate) fn of(keys: &Keys, shards: impl Iterator<Item = ShardId>) -> Self {
        let metas = shards.take(MOST).map(|shard| keys.meta(shard).into()).collect();
        Self { metas, seen: Mutex::default() }
    }

    pub(super) fn questions(&self) -> impl Iterator<Item = Cmd> {
        self.metas.iter().map(|meta| {
            let mut question = cmd("HMGET");
            question.arg(meta).arg("identity");
            question
        })
    }

    /// Compares and records the answers of a master.
    ///
    /// # Errors
    /// The master keeps another deployment: the found identity first, then the known identity.
    pub(super) fn compare(
        &self,
        master: &Node,
        answers: &[Value],
    ) -> Result<(), (DeploymentId, DeploymentId)> {
        let Some(identity) = answers.iter().find_map(identity_in) else { return Ok(()) };
        let mut seen = self.seen.lock().expect("no code panics while holding the lock");
        match &*seen {
            Some(known) if known.identity != identity && known.master != *master => {
                return Err((identity, known.identity));
            }
            Some(known) if known.identity != identity => {
                tracing::warn!(%master, was = %known.identity, now = %identity, "the deployment was created again");
            }
            _ => {}
        }
        *seen = Some(Seen { identity, master: master.clone() });
        Ok(())
    }
}

fn identity_in(answer: &Value) -> Option<DeploymentId> {
    let [text]: [Option<String>; 1] = <[_; 1]>::from_redis_value(answer.clone()).ok()?;
    text?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_master_of_another_deployment_is_told_from_one_that_was_created_again() {
        let marks = Marks::default();
        let (a, b) = (Node::new("a", 1), Node::new("b", 1));
        let [one, other] = [DeploymentId::random(), DeploymentId::random()];
        let said = |id: DeploymentId| [Value::Array(vec![Value::BulkString(id.to_string().into_bytes())])];
        let none = [Value::Array(vec![Value::Nil])];
        assert_eq!(marks.compare(&a, &none), Ok(()), "a deployment from before there were identities");
        assert_eq!(marks.compare(&a, &said(one)), Ok(()));
        assert_eq!(marks.compare(&b, &said(other)), Err((other, one)));
        assert_eq!(marks.compare(&b, &none), Ok(()), "an empty one is refused by its shards");
        assert_eq!(marks.compare(&b, &said(one)), Ok(()), "a failover");
        assert_eq!(marks.compare(&b, &said(other)), Ok(()), "created again");
        assert_eq!(marks.compare(&a, &said(one)), Err((one, other)));
    }
}
