//! Decides about the step after a failed attempt. Pure.
//!
//! ```text
//! failed ─┬─ the refusal says where or how to send       ─► again
//!         ├─ an outage, and a repeat is recognised      ─► again, once
//!         └─ otherwise                                  ─► fail
//! ```
//! A refused call changed nothing, so a repeat is safe for every script.

use crate::error::Error;
use delayq_core::fate::Fate;
use delayq_core::layout::LayoutRelation;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Write {
    /// True if the layout decides the shard, as for a put: a newer layout may choose another shard.
    pub(crate) is_placed: bool,
    /// True if a shard of another node may take the message.
    pub(crate) has_other_shard: bool,
    /// True if Redis recognises a repeat, and the write was not repeated yet.
    pub(crate) may_repeat: bool,
    /// True if attempts and time are left.
    pub(crate) has_budget: bool,
}

/// The lesson of a failure, compared with the present knowledge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taught {
    Nothing,
    Script,
    Slot,
    Node,
    /// The relation of the shard's layout to the known layout, and true if the call was sent under the known layout.
    Layout(LayoutRelation, bool),
    /// The topic's writes wait for replicas or a disk.
    Durability,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Again(Again),
    Fail,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    Script,
    Slot,
    Node,
    Layout,
    /// The shard must learn the known layout first.
    Raise,
    Durability,
    Placement,
    /// Send to a shard of another node, under another id.
    OtherShard,
    /// Repeat an attempt that an outage ended.
    Lost,
}

pub(crate) fn next(write: Write, error: &Error, taught: Taught) -> Next {
    if !write.has_budget {
        return Next::Fail;
    }
    Next::Again(match taught {
        Taught::Script => Again::Script,
        Taught::Slot => Again::Slot,
        Taught::Node => Again::Node,
        Taught::Durability => Again::Durability,
        Taught::Layout(LayoutRelation::NeverSo | LayoutRelation::Other, _) => return Next::Fail,
        Taught::Layout(_, false) if write.is_placed => Again::Placement,
        Taught::Layout(LayoutRelation::Older, _) => Again::Raise,
        Taught::Layout(LayoutRelation::Same | LayoutRelation::Newer, _) => Again::Layout,
        Taught::Nothing => match error {
            Error::Uninitialised(_) if write.has_other_shard => Again::OtherShard,
            // Nothing was sent, so no other id was stored.
            error if error.is_silence() && error.fate() == Fate::NotApplied && write.has_other_shard => {
                Again::OtherShard
            }
            // Waiting for the confirmation used up the time of a repeat.
            Error::Unconfirmed { .. } => return Next::Fail,
            error if error.is_outage() && write.may_repeat => Again::Lost,
            _ => return Next::Fail,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use delayq_core::durability::Durability;
    use delayq_core::shard::ShardId;

    const PUT: Write = Write { is_placed: true, has_other_shard: true, may_repeat: true, has_budget: true };
    /// A cancel, a reschedule, a settlement, a step of a group.
    const OTHER: Write =
        Write { is_placed: false, has_other_shard: false, may_repeat: false, has_budget: true };

    fn redis(code: &str) -> Error {
        Error::Redis { code: code.to_owned(), detail: String::new() }
    }

    fn layout() -> Error {
        let (found, counts) = ("2".into(), "4,8".into());
        Error::Layout { shard: ShardId::new(0), found, counts, deployment: None, known: 1 }
    }

    fn unanswered() -> Error {
        Error::NoAnswer { address: String::new(), why: String::new() }
    }

    fn unreachable() -> Error {
        Error::Unreachable { address: String::new(), why: String::new() }
    }

    fn unconfirmed(fate: Fate) -> Error {
        Error::Unconfirmed { durability: "disk".to_owned(), fate, why: String::new() }
    }

    /// Checks every failure and lesson, for a put and for another write.
    fn table() -> Vec<(Error, Taught, Option<Again>, Option<Again>)> {
        use LayoutRelation::{NeverSo, Newer, Older, Other, Same};
        let both = |error, taught, again| (error, taught, Some(again), Some(again));
        let lost = |error| (error, Taught::Nothing, Some(Again::Lost), None);
        let failed = |error, taught| (error, taught, None, None);
        let passing = [
            "ASK",
            "BUSY",
            "CLUSTERDOWN",
            "LOADING",
            "MASTERDOWN",
            "MISCONF",
            "MOVED",
            "NOAUTH",
            "NOREPLICAS",
            "NOSCRIPT",
            "OOM",
            "READONLY",
            "TRYAGAIN",
            "WRONGPASS",
        ];
        let lasting = ["CROSSSLOT", "DQARG", "NOPERM", "ERR", "WRONGTYPE"];
        let mut table = vec![
            both(redis("NOSCRIPT"), Taught::Script, Again::Script),
            both(redis("MOVED"), Taught::Slot, Again::Slot),
            both(redis("READONLY"), Taught::Node, Again::Node),
            both(layout(), Taught::Node, Again::Node),
            both(Error::Durability(Durability::Disk), Taught::Durability, Again::Durability),
            both(layout(), Taught::Layout(Older, true), Again::Raise),
            both(layout(), Taught::Layout(Same, true), Again::Layout),
            (layout(), Taught::Layout(Older, false), Some(Again::Placement), Some(Again::Raise)),
            (layout(), Taught::Layout(Same, false), Some(Again::Placement), Some(Again::Layout)),
            (layout(), Taught::Layout(Newer, false), Some(Again::Placement), Some(Again::Layout)),
            failed(layout(), Taught::Layout(NeverSo, false)),
            failed(layout(), Taught::Layout(Other, false)),
            failed(layout(), Taught::Nothing),
            (Error::Uninitialised(ShardId::new(0)), Taught::Nothing, Some(Again::OtherShard), None),
            failed(Error::Deployment(String::new()), Taught::Nothing),
            failed(Error::Closed, Taught::Nothing),
            failed(unconfirmed(Fate::Unknown), Taught::Nothing),
            failed(unconfirmed(Fate::NotApplied), Taught::Nothing),
            lost(unanswered()),
            (unreachable(), Taught::Nothing, Some(Again::OtherShard), None),
        ];
        table.extend(passing.map(|code| lost(redis(code))));
        table.extend(lasting.map(|code| failed(redis(code), Taught::Nothing)));
        table
    }

    #[test]
    fn what_follows_a_failure_depends_on_what_it_taught() {
        let said = |again: Option<Again>| again.map_or(Next::Fail, Next::Again);
        for (error, taught, put, other) in table() {
            assert_eq!(next(PUT, &error, taught), said(put), "a put: {error}, {taught:?}");
            assert_eq!(next(OTHER, &error, taught), said(other), "another write: {error}, {taught:?}");
        }
    }

    #[test]
    fn nothing_is_sent_again_once_attempts_or_time_are_used_up() {
        for (error, taught, ..) in table() {
            for write in [PUT, OTHER] {
                assert_eq!(next(Write { has_budget: false, ..write }, &error, taught), Next::Fail);
            }
        }
    }

    #[test]
    fn an_outage_is_repeated_once_and_a_missing_shard_has_to_have_another_one() {
        let repeated = Write { may_repeat: false, ..PUT };
        assert_eq!(next(repeated, &unanswered(), Taught::Nothing), Next::Fail);
        let bound = Write { has_other_shard: false, ..PUT };
        assert_eq!(next(bound, &unreachable(), Taught::Nothing), Next::Again(Again::Lost));
        assert_eq!(next(bound, &Error::Uninitialised(ShardId::new(0)), Taught::Nothing), Next::Fail);
    }
}
