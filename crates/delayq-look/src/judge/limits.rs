//! Thresholds, and the verdicts of values.

use super::judgement::Judgement;

/// A warning threshold and a critical threshold. Equality reaches a threshold.
pub type Pair = (Option<f64>, Option<f64>);

/// The thresholds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Seconds for which a shard has been overdue.
    pub overdue: Pair,
    /// Seconds for which the oldest ready message of a topic has waited.
    pub ready_age: Pair,
    /// Ready messages of a topic.
    pub ready: Pair,
    /// Dead letters of a topic.
    pub dead: Pair,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            overdue: (Some(2.0), Some(30.0)),
            ready_age: (Some(300.0), Some(3600.0)),
            ready: (None, None),
            dead: (None, None),
        }
    }
}

pub(super) fn verdict(value: f64, (warn, crit): Pair) -> Judgement {
    let reached = |limit: Option<f64>| limit.is_some_and(|limit| value >= limit);
    match (reached(warn), reached(crit)) {
        (_, true) => Judgement::Bad,
        (true, false) => Judgement::Warning,
        (false, false) => Judgement::Good,
    }
}

/// The given thresholds over the defaults. A threshold of 0 is off. If only the critical threshold is given, a higher default of
/// the warning falls to the critical value. If only the warning is given, a lower default of the critical threshold is off.
///
/// `None`: both are given, and the warning is above the critical threshold.
pub fn pair(given: Pair, default: Pair) -> Option<Pair> {
    let on = |limit: Option<f64>| limit.filter(|&limit| limit > 0.0);
    let above = |warn: Option<f64>, crit: Option<f64>| warn.zip(crit).is_some_and(|(warn, crit)| warn > crit);
    match (given.0.map(Some).map(on), given.1.map(Some).map(on)) {
        (None, None) => Some(default),
        (None, Some(crit)) if above(default.0, crit) => Some((crit, crit)),
        (None, Some(crit)) => Some((default.0, crit)),
        (Some(warn), None) if above(warn, default.1) => Some((warn, None)),
        (Some(warn), None) => Some((warn, default.1)),
        (Some(warn), Some(crit)) if above(warn, crit) => None,
        (Some(warn), Some(crit)) => Some((warn, crit)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_threshold_is_reached_at_its_value() {
        let pair = (Some(2.0), Some(30.0));
        for (value, judgement) in [
            (0.0, Judgement::Good),
            (1.999, Judgement::Good),
            (2.0, Judgement::Warning),
            (29.999, Judgement::Warning),
            (30.0, Judgement::Bad),
        ] {
            assert_eq!(verdict(value, pair), judgement, "{value}");
        }
        assert_eq!(verdict(1e9, (None, None)), Judgement::Good, "switched off");
    }

    #[test]
    fn a_threshold_alone_works_whatever_the_default_of_the_other_is() {
        let default = (Some(300.0), Some(3600.0));
        for (warn, crit, expected) in [
            (None, None, Some(default)),
            (None, Some(10.0), Some((Some(10.0), Some(10.0)))),
            (None, Some(600.0), Some((Some(300.0), Some(600.0)))),
            (None, Some(0.0), Some((Some(300.0), None))),
            (Some(7200.0), None, Some((Some(7200.0), None))),
            (Some(60.0), None, Some((Some(60.0), Some(3600.0)))),
            (Some(0.0), None, Some((None, Some(3600.0)))),
            (Some(0.0), Some(0.0), Some((None, None))),
            (Some(5.0), Some(5.0), Some((Some(5.0), Some(5.0)))),
            (Some(6.0), Some(5.0), None),
        ] {
            assert_eq!(pair((warn, crit), default), expected, "{warn:?} {crit:?}");
        }
        assert_eq!(pair((None, Some(3.0)), (None, None)), Some((None, Some(3.0))));
    }
}
