//! What the sentinels of a master say, and which of them to believe.
//!
//! Sentinels raise the *epoch* of their configuration with each failover, so the answer with the highest one is the
//! newest. One that was cut off, or has just started, still names the former master by a lower epoch.

use crate::link::node::Node;
use serde::Serialize;

/// What one sentinel says of the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) master: Node,
    pub(super) epoch: u64,
    pub(super) facts: SentinelFacts,
}

/// What a sentinel says of itself and of what it sees.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SentinelFacts {
    /// How many sentinels have to agree that the master is down.
    pub quorum: u64,
    /// How many sentinels watch the master, this one included.
    pub sentinels: u64,
    /// How many replicas of the master it knows.
    pub replicas: u64,
    /// What it thinks of the master, such as `master` or `master,s_down`.
    pub flags: String,
}

/// The last news of one sentinel.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) node: Node,
    /// The round of questions that the news answers; 0: there is none yet.
    pub(super) round: u64,
    /// What it said, or why it said nothing.
    pub(super) news: Result<Said, String>,
}

/// Whether what is known answers the question for the master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answered {
    /// It does: more would not change it.
    Well,
    /// At least one sentinel has answered; others may know better.
    Partly,
    /// No sentinel has answered yet, and some still may.
    NotYet,
    /// No sentinel answers.
    ByNone,
}

// === impl View ===

impl View {
    pub(super) fn new(node: Node) -> Self {
        Self { node, round: 0, news: Err("it has not answered yet".to_owned()) }
    }
}

/// How far this round of questions is answered.
pub(super) fn answered(views: &[View], round: u64) -> Answered {
    let fresh: Vec<&View> = views.iter().filter(|view| view.round >= round).collect();
    let heard = fresh.iter().filter(|view| view.news.is_ok()).count();
    match (heard, fresh.len() == views.len()) {
        (0, true) => Answered::ByNone,
        (0, false) => Answered::NotYet,
        (_, true) => Answered::Well,
        (heard, false) if heard > views.len() / 2 => Answered::Well,
        _ => Answered::Partly,
    }
}

/// The master by the highest epoch. Where sentinels differ within one epoch, the present master stays, or else the one
/// that most of them name. An epoch below the present one counts if most of all sentinels name it: theirs were reset.
pub(super) fn elect(views: &[View], present: Option<(&Node, u64)>) -> Option<(Node, u64)> {
    let heard = || views.iter().filter_map(|view| view.news.as_ref().ok());
    let epoch = heard().map(|said| said.epoch).max()?;
    let newest: Vec<&Node> = heard().filter(|said| said.epoch == epoch).map(|said| &said.master).collect();
    if let Some((master, known)) = present {
        if epoch < known && newest.len() <= views.len() / 2 {
            return None;
        }
        if newest.contains(&master) {
            return Some((master.clone(), epoch));
        }
    }
    let votes = |node: &Node| newest.iter().filter(|named| **named == node).count();
    // Of equals, the last one wins: the first sentinel's.
    let master = newest.iter().rev().max_by_key(|node| votes(node))?;
    Some(((*master).clone(), epoch))
}

/// What each sentinel said, as a sentence of an error.
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
    fn the_highest_epoch_names_the_master_and_a_minority_does_not_go_back() {
        let (a, b) = (Node::new("a", 1), Node::new("b", 1));
        for (news, present, elected) in [
            (vec![None, None, None], None, None),
            (vec![Some(("a", 1)), None, None], None, Some((&a, 1))),
            (vec![Some(("a", 1)), Some(("b", 2)), Some(("a", 1))], None, Some((&b, 2))),
            (vec![Some(("a", 1)), Some(("b", 2)), Some(("a", 1))], Some((&a, 1)), Some((&b, 2))),
            (vec![Some(("a", 1)), None, None], Some((&b, 2)), None),
            (vec![Some(("a", 1)), Some(("a", 1)), None], Some((&b, 2)), Some((&a, 1))),
            (vec![Some(("a", 1)), Some(("b", 1)), Some(("b", 1))], None, Some((&b, 1))),
            (vec![Some(("a", 1)), Some(("b", 1)), Some(("b", 1))], Some((&a, 1)), Some((&a, 1))),
            (vec![Some(("a", 1)), Some(("b", 1)), None], None, Some((&a, 1))),
        ] {
            let wanted = elected.map(|(node, epoch)| (node.clone(), epoch));
            assert_eq!(elect(&views(&news), present), wanted, "{news:?} {present:?}");
        }
    }

    #[test]
    fn a_round_is_answered_by_most_sentinels_or_by_all_that_are_left() {
        let of = |rounds: [u64; 3], news: &[Option<(&str, u64)>]| {
            let mut views = views(news);
            views.iter_mut().zip(rounds).for_each(|(view, round)| view.round = round);
            answered(&views, 2)
        };
        let (a, gone) = (Some(("a", 1)), None);
        assert_eq!(of([1, 1, 1], &[a, a, a]), Answered::NotYet);
        assert_eq!(of([2, 1, 1], &[gone, a, a]), Answered::NotYet);
        assert_eq!(of([2, 2, 1], &[gone, a, a]), Answered::Partly);
        assert_eq!(of([2, 2, 1], &[a, a, gone]), Answered::Well);
        assert_eq!(of([2, 2, 2], &[a, gone, gone]), Answered::Well);
        assert_eq!(of([2, 2, 3], &[gone, gone, gone]), Answered::ByNone);
    }
}
