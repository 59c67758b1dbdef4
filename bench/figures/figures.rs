//! A measured figure, and its limit.

use crate::shape::Shape;
use serde::Serialize;

/// One row: a measurement, and its limit in the same run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figure {
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) shape: Shape,
    pub(crate) unit: &'static str,
    pub(crate) measured: f64,
    /// The rate of a bare client with the same scripts; `None` without a comparison.
    pub(crate) limit: Option<f64>,
    pub(crate) target: Target,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Target {
    OfLimit(f64),
    AtMost(f64),
    AtLeast(f64),
    None,
}

// === impl Figure ===

impl Figure {
    pub(crate) fn new(shape: Shape, name: impl Into<String>, unit: &'static str, measured: f64) -> Self {
        Self { name: name.into(), shape, unit, measured, limit: None, target: Target::None }
    }

    pub(crate) fn limit(self, limit: f64) -> Self {
        Self { limit: Some(limit), ..self }
    }

    pub(crate) fn target(self, target: Target) -> Self {
        Self { target, ..self }
    }

    pub(crate) fn ratio(&self) -> Option<f64> {
        self.limit.map(|limit| self.measured / limit)
    }

    pub(crate) fn reached(&self) -> Option<bool> {
        match self.target {
            Target::OfLimit(part) => self.ratio().map(|ratio| ratio >= part),
            Target::AtMost(most) => Some(self.measured <= most),
            Target::AtLeast(least) => Some(self.measured >= least),
            Target::None => None,
        }
    }
}

/// Figure by figure, by ratio if available.
pub(crate) fn median(mut runs: Vec<Vec<Figure>>) -> Vec<Figure> {
    let count = runs.first().expect("at least one run").len();
    assert!(runs.iter().all(|run| run.len() == count), "runs of the same measurements");
    let mut figures = Vec::new();
    for _ in 0..count {
        let mut same: Vec<Figure> = runs.iter_mut().map(|run| run.remove(0)).collect();
        same.sort_by(|one, two| key(one).total_cmp(&key(two)));
        figures.push(same.swap_remove(same.len() / 2));
    }
    figures
}

fn key(figure: &Figure) -> f64 {
    figure.ratio().unwrap_or(figure.measured)
}

/// In ms; 0 if empty.
pub(crate) fn percentile_ms(sorted_us: &[u64], part: f64) -> f64 {
    let at = ((sorted_us.len() as f64 * part).ceil() as usize).clamp(1, sorted_us.len().max(1)) - 1;
    sorted_us.get(at).map_or(0.0, |&us| us as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use delayq::ShardCount;

    #[test]
    fn the_median_is_taken_figure_by_figure() {
        let shape = Shape::own(ShardCount::default());
        let figure = |measured| Figure::new(shape, "x", "/s", measured).limit(10.0);
        let runs = vec![vec![figure(1.0)], vec![figure(9.0)], vec![figure(4.0)]];
        assert_eq!(median(runs)[0].measured, 4.0);
    }

    #[test]
    fn a_percentile_of_few_values_is_one_of_them() {
        assert_eq!(percentile_ms(&[], 0.99), 0.0);
        assert_eq!(percentile_ms(&[1000, 2000], 0.5), 1.0);
        assert_eq!(percentile_ms(&[1000, 2000], 0.99), 2.0);
    }
}
