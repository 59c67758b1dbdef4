//! Options outside their ranges.

/// An option as its range allows it; one outside is told, and the nearest value taken.
pub(crate) fn in_range(name: &str, value: usize, range: std::ops::RangeInclusive<usize>) -> usize {
    let taken = value.clamp(*range.start(), *range.end());
    if taken != value {
        tracing::warn!(option = name, value, taken, "an option is outside its range {range:?}");
    }
    taken
}
