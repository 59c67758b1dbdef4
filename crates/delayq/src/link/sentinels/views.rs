//! The answers of a master's sentinels, and the election of the master.
//!
//! The master is the Redis that a majority of the configured sentinels names, just as a majority has to agree on a
//! failover. A sentinel that was cut off, has just started, or watches another Redis under the same name is outvoted,
//! regardless of the *epoch* of its configuration. As long as no master is known, the answering sentinels elect the
//! first master.

use crate::link::node::Node;
use serde::Serialize;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) master: Node,
    pub(super) epoch: u64,
    pub(super) facts: SentinelFacts,
}

/// Facts that a sentinel reports about the service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SentinelFacts {
    /// Number of sentinels that have to agree that the master is down.
    pub quorum: u64,
    /// Number of sentinels that watch the master, this sentinel included.
    pub sentinels: u64,
    /// Number of replicas of the master that this sentinel knows.
    pub replicas: u64,
    /// The sentinel's opinion of the master, such as `master` or `master,s_down`.
    pub flags: String,
}

#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) node: Node,
    /// The round of questions that the news answers; 0 before the first news.
    pub(super) round: u64,
    /// The answer, or the reason why there is none.
    pub(super) news: Result<Said, String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answered {
    /// Answered: further answers would not change the result.
    Well,
    /// At least one sentinel has answered; other sentinels may know better.
    Partly,
    /// No sentinel has answered yet, and some still may.
    NotYet,
    /// No sentinel answers.
    ByNone,
}

// === impl View ===

impl View {
    pub(super) fn new(node: Node) -> Self {
        Self { node, round: 0, news: Err("no reply yet".to_owned()) }
    }
}

pub(super) fn answered(views: &[View], round: u64) -> Answered {
    let fresh = || views.iter().filter(|view| view.round >= round);
    let heard = fresh().filter(|view| view.news.is_ok()).count();
    match (heard, fresh().count() == views.len()) {
        (0, true) => Answered::ByNone,
        (0, false) => Answered::NotYet,
        (_, true) => Answered::Well,
        _ if elect(fresh(), views.len()).is_some() => Answered::Well,
        _ => Answered::Partly,
    }
}

/// Elects the master that more than half of `of` sentinels name, with the highest epoch among these sentinels.
pub(super) fn elect<'v>(views: impl Iterator<Item = &'v View>, of: usize) -> Option<(Node, u64)> {
    let heard: Vec<&Said> = views.filter_map(|view| view.news.as_ref().ok()).collect();
    let of_master = |master: &Node| heard.iter().filter(|said| said.master == *master).collect::<Vec<_>>();
    let named = heard.iter().map(|said| of_master(&said.master)).find(|named| named.len() > of / 2)?;
    let epoch = named.iter().map(|said| said.epoch).max()?;
    Some((named[0].master.clone(), epoch))
}

pub(super) fn voters(views: &[View]) -> usize {
    views.iter().filter(|view| view.news.is_ok()).count()
}

pub(super) fn told(views: &[View]) -> String {
    let told = |view: &View| match &view.news {
        Ok(said) => format!("sentinel {} names {} by epoch {}", view.node, said.master, said.epoch),
        Err(why) => format!("sentinel {}: {why}", view.node),
    };
    views.iter().map(told).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn views(news: &[Option<(&str, u64)>]) -> Vec<View> {
        let view = |(i, news): (usize, &Option<(&str, u64)>)| {
            let said = news.map(|(master, epoch)| Said {
                master: Node::new(master, 1),
                epoch,
                facts: SentinelFacts::default(),
            });
            View {
                news: said.ok_or_else(|| "down".to_owned()),
                round: 2,
                ..View::new(Node::new("s", i as u16))
            }
        };
        news.iter().enumerate().map(view).collect()
    }

    #[test]
    fn most_of_the_sentinels_name_the_master_and_a_minority_overrules_nobody_by_any_epoch() {
        let (a, b) = (Node::new("a", 1), Node::new("b", 1));
        for (news, elected) in [
            (vec![None, None, None], None),
            (vec![Some(("a", 1)), None, None], None),
            (vec![Some(("a", 1)), Some(("a", 1)), None], Some((&a, 1))),
            (vec![Some(("a", 1)), Some(("b", 9)), Some(("a", 2))], Some((&a, 2))),
            (vec![Some(("b", 2)), Some(("b", 2)), Some(("a", 1))], Some((&b, 2))),
            (vec![Some(("b", 1)), Some(("b", 1)), Some(("a", 5))], Some((&b, 1))),
            (vec![Some(("a", 1)), Some(("b", 9)), None], None),
            (vec![Some(("a", 1)), Some(("b", 1))], None),
            (vec![Some(("a", 1))], Some((&a, 1))),
        ] {
            let views = views(&news);
            let wanted = elected.map(|(node, epoch)| (node.clone(), epoch));
            assert_eq!(elect(views.iter(), views.len()), wanted, "{news:?}");
        }
    }

    #[test]
    fn the_first_master_is_elected_by_those_that_answer_unless_they_differ() {
        let a = Node::new("a", 1);
        for (news, elected) in [
            (vec![None, None, None], None),
            (vec![Some(("a", 1)), None, None], Some((&a, 1))),
            (vec![Some(("a", 1)), Some(("b", 9)), None], None),
        ] {
            let views = views(&news);
            let wanted = elected.map(|(node, epoch)| (node.clone(), epoch));
            assert_eq!(elect(views.iter(), voters(&views)), wanted, "{news:?}");
        }
    }

    #[test]
    fn a_round_is_answered_by_most_sentinels_that_agree_or_by_all_that_are_left() {
        let of = |rounds: [u64; 3], news: &[Option<(&str, u64)>]| {
            let mut views = views(news);
            views.iter_mut().zip(rounds).for_each(|(view, round)| view.round = round);
            answered(&views, 2)
        };
        let (a, b, gone) = (Some(("a", 1)), Some(("b", 9)), None);
        assert_eq!(of([1, 1, 1], &[a, a, a]), Answered::NotYet);
        assert_eq!(of([2, 1, 1], &[gone, a, a]), Answered::NotYet);
        assert_eq!(of([2, 2, 1], &[gone, a, a]), Answered::Partly);
        assert_eq!(of([2, 2, 1], &[a, a, gone]), Answered::Well);
        assert_eq!(of([2, 2, 1], &[a, b, a]), Answered::Partly);
        assert_eq!(of([2, 2, 2], &[a, b, a]), Answered::Well);
        assert_eq!(of([2, 2, 2], &[a, gone, gone]), Answered::Well);
        assert_eq!(of([2, 2, 3], &[gone, gone, gone]), Answered::ByNone);
    }
}
