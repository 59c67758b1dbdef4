//! Prints figures: a row per figure, or a column per number of shards.

use crate::figures::{Figure, Target};
use delayq_cli::output::Output;
use std::collections::BTreeSet;

const COLUMNS: [&str; 9] =
    ["figure", ">shards", "ids", "groups", ">measured", ">limit", ">ratio", "target", "reached"];

pub(crate) fn table(output: Output, figures: &[Figure]) -> String {
    let mut rows = output.rows(&COLUMNS);
    for figure in figures {
        rows.judged(figure.reached().unwrap_or(true), cells(figure));
    }
    rows.text()
}

pub(crate) fn markdown(figures: &[Figure]) -> String {
    let heads = COLUMNS.map(|name| name.trim_start_matches('>').to_owned());
    let lines = COLUMNS.map(|name| if name.starts_with('>') { "---:" } else { "---" }.to_owned());
    let rows = figures.iter().map(cells);
    [heads, lines].into_iter().chain(rows).map(|cells| line(&cells)).collect()
}

/// A column per number of shards, and a row per name.
pub(crate) fn by_shards(figures: &[Figure]) -> String {
    let shards: BTreeSet<_> = figures.iter().map(|figure| figure.shape.shards).collect();
    let mut names: Vec<(&str, &str)> = Vec::new();
    for figure in figures {
        if !names.contains(&(&figure.name, figure.unit)) {
            names.push((&figure.name, figure.unit));
        }
    }
    let heads =
        std::iter::once("shards".to_owned()).chain(shards.iter().map(|shards| shards.get().to_string()));
    let lines = std::iter::once("---".to_owned()).chain(shards.iter().map(|_| "---:".to_owned()));
    let rows = names.into_iter().map(|(name, unit)| {
        let of = |shards| figures.iter().find(|figure| figure.name == name && figure.shape.shards == shards);
        let cells = shards.iter().map(|&shards| of(shards).map(|of| number(of.measured)).unwrap_or_default());
        line(&std::iter::once(format!("{name}, {unit}")).chain(cells).collect::<Vec<_>>())
    });
    let top = [line(&heads.collect::<Vec<_>>()), line(&lines.collect::<Vec<_>>())];
    top.into_iter().chain(rows).collect()
}

fn cells(figure: &Figure) -> [String; COLUMNS.len()] {
    [
        figure.name.clone(),
        figure.shape.shards.get().to_string(),
        figure.shape.ids.to_string(),
        if figure.shape.groups { "yes" } else { "no" }.to_owned(),
        format!("{} {}", number(figure.measured), figure.unit),
        figure.limit.map(number).unwrap_or_default(),
        figure.ratio().map(|ratio| format!("{ratio:.2}")).unwrap_or_default(),
        match figure.target {
            Target::OfLimit(part) => format!(">= {part} x"),
            Target::AtMost(most) => format!("<= {} {}", rounded(most), figure.unit),
            Target::AtLeast(least) => format!(">= {} {}", number(least), figure.unit),
            Target::None => String::new(),
        },
        figure.reached().map_or("", |reached| if reached { "yes" } else { "no" }).to_owned(),
    ]
}

fn line(cells: &[String]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

/// Removes the rounding error of a product of two decimal fractions.
fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

fn number(value: f64) -> String {
    match value {
        value if value < 10.0 => format!("{value:.3}"),
        value if value < 100.0 => format!("{value:.1}"),
        value => {
            let digits = format!("{value:.0}");
            let (first, rest) = digits.split_at((digits.len() - 1) % 3 + 1);
            let thousands =
                rest.as_bytes().chunks(3).map(|three| String::from_utf8_lossy(three).into_owned());
            std::iter::once(first.to_owned()).chain(thousands).collect::<Vec<_>>().join(",")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::Shape;
    use delayq::ShardCount;

    #[test]
    fn numbers_have_three_digits_or_groups_of_thousands() {
        for (value, text) in [(0.0254, "0.025"), (24.31, "24.3"), (474.2, "474"), (149_339.4, "149,339")] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn a_target_that_was_multiplied_is_as_short_as_the_others() {
        let shape = Shape::own(ShardCount::DEFAULT);
        let figure = Figure::new(shape, "ready", "ms", 0.1).target(Target::AtMost(0.3 * 1.5));
        assert!(markdown(&[figure]).ends_with("| <= 0.45 ms | yes |\n"));
    }

    #[test]
    fn every_row_says_shards_ids_and_groups() {
        let shape = Shape::grouped(ShardCount::new(64).expect("64 shards"));
        let figure = Figure::new(shape, "put", "/s", 1000.0).limit(2000.0).target(Target::OfLimit(0.6));
        let text = markdown(&[figure]);
        assert_eq!(
            text.lines().last(),
            Some("| put | 64 | own | yes | 1,000 /s | 2,000 | 0.50 | >= 0.6 x | no |")
        );
    }

    #[test]
    fn figures_over_several_numbers_of_shards_stand_side_by_side() {
        let figure = |shards, measured| {
            Figure::new(Shape::own(ShardCount::new(shards).expect("a few shards")), "put", "/s", measured)
        };
        let text = by_shards(&[figure(16, 500.0), figure(1, 900.0)]);
        assert_eq!(text, "| shards | 1 | 16 |\n| --- | ---: | ---: |\n| put, /s | 900 | 500 |\n");
    }
}
