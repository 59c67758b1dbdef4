//! Metrics that a process exports for Prometheus, read back.

use std::collections::BTreeMap;

/// A value with name and labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The name, `_total` and `_bucket` included.
    pub name: String,
    /// The labels.
    pub labels: BTreeMap<String, String>,
    /// The value.
    pub value: f64,
}

/// Everything that a process exports at a single moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Exposition(Vec<Series>);

// === impl Exposition ===

impl Exposition {
    /// Reads the text, and skips every line that is not a series.
    pub fn read(text: &str) -> Self {
        Self(text.lines().filter(|line| !line.starts_with('#')).filter_map(series).collect())
    }

    /// Every series of this name.
    pub fn of<'n>(&'n self, name: &'n str) -> impl Iterator<Item = &'n Series> {
        self.0.iter().filter(move |series| series.name == name)
    }

    /// The exports of several processes together.
    pub fn of_all<'e>(all: impl IntoIterator<Item = &'e Self>) -> Self {
        Self(all.into_iter().flat_map(|one| one.0.iter().cloned()).collect())
    }

    /// The sum over all labels; `None` if the process does not export the metric.
    pub fn sum(&self, name: &str) -> Option<f64> {
        self.of(name).map(|series| series.value).reduce(|sum, value| sum + value)
    }

    /// The bound below which `part` of the values lie that a histogram counted since `before`, in the histogram's unit;
    /// `None` if nothing was counted.
    pub fn quantile(&self, name: &str, before: Option<&Self>, part: f64) -> Option<f64> {
        let bucket = format!("{name}_bucket");
        let counts = |exposition: &Self| {
            let mut counts: Vec<(f64, f64)> = Vec::new();
            for series in exposition.of(&bucket) {
                let Some(bound) = series.labels.get("le").and_then(|bound| bound.parse().ok()) else {
                    continue;
                };
                match counts.iter_mut().find(|(known, _): &&mut (f64, f64)| known.total_cmp(&bound).is_eq()) {
                    Some((_, count)) => *count += series.value,
                    None => counts.push((bound, series.value)),
                }
            }
            counts
        };
        let earlier = before.map(counts).unwrap_or_default();
        let mut counts = counts(self);
        for (bound, count) in &mut counts {
            *count -=
                earlier.iter().find(|(known, _)| known.total_cmp(bound).is_eq()).map_or(0.0, |(_, n)| *n);
        }
        counts.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        let all = counts.last().map(|(_, count)| *count).filter(|&all| all > 0.0)?;
        counts.into_iter().find(|(_, count)| *count >= all * part).map(|(bound, _)| bound)
    }
}

fn series(line: &str) -> Option<Series> {
    let (name, labels, rest) = match line.find(['{', ' '])? {
        end if line[end..].starts_with('{') => {
            let (labels, rest) = labels(&line[end + 1..])?;
            (&line[..end], labels, rest)
        }
        end => (&line[..end], BTreeMap::new(), &line[end..]),
    };
    let value = rest.split_whitespace().next()?.parse().ok()?;
    Some(Series { name: name.to_owned(), labels, value })
}

/// Returns the labels, and the text after the closing brace.
fn labels(mut text: &str) -> Option<(BTreeMap<String, String>, &str)> {
    let mut labels = BTreeMap::new();
    loop {
        text = text.trim_start_matches(',');
        if let Some(rest) = text.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (name, rest) = text.split_once("=\"")?;
        let mut value = String::new();
        let mut letters = rest.char_indices();
        let end = loop {
            match letters.next()? {
                (end, '"') => break end + 1,
                (_, '\\') => match letters.next()?.1 {
                    'n' => value.push('\n'),
                    escaped => value.push(escaped),
                },
                (_, letter) => value.push(letter),
            }
        };
        labels.insert(name.to_owned(), value);
        text = &rest[end..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_labels_and_values_are_read_whatever_a_label_holds() {
        let text = "# HELP a b\na 1\nb{x=\"1\",y=\"q\\\"},\\\\n\"} 2.5 # {id=\"x\"} 0.1\nc{} +Inf\nnothing\n";
        let read = Exposition::read(text);
        assert_eq!(read.sum("a"), Some(1.0));
        let b: Vec<&Series> = read.of("b").collect();
        assert_eq!(
            (b[0].labels["x"].as_str(), b[0].labels["y"].as_str(), b[0].value),
            ("1", "q\"},\\n", 2.5)
        );
        assert_eq!((read.sum("c"), read.sum("nothing")), (Some(f64::INFINITY), None));
    }

    #[test]
    fn a_quantile_is_of_what_was_counted_since() {
        let of = |one: u32, two: u32| {
            Exposition::read(&format!(
                "l_bucket{{le=\"0.1\"}} {one}\nl_bucket{{le=\"1.0\"}} {two}\nl_bucket{{le=\"+Inf\"}} {two}\n"
            ))
        };
        let (before, now) = (of(100, 100), of(101, 110));
        assert_eq!(now.quantile("l", None, 0.5), Some(0.1));
        assert_eq!(now.quantile("l", Some(&before), 0.5), Some(1.0));
        assert_eq!(before.quantile("l", Some(&before), 0.5), None);
    }
}
