//! The lateness of a real run, from the file that `delayq-bench lateness --waits FILE` writes.

use crate::svg::{Anchor, Picture, thousands};
use std::collections::BTreeMap;

/// Number of bars, from 10 µs to 100 ms, of equal width on a logarithmic scale.
const BARS: usize = 64;
const FROM_US: f64 = 10.0;
const DECADES: f64 = 4.0;

const LEFT: f64 = 84.0;
const TOP: f64 = 86.0;
const WIDTH: f64 = 836.0;
const HEIGHT: f64 = 250.0;

type Waits = BTreeMap<u64, u64>;

pub(crate) fn draw(csv: &str) -> Result<String, String> {
    let (mut delayq, mut bare) = (Waits::new(), Waits::new());
    let mut shards = "";
    for line in csv.lines().filter(|line| !line.starts_with('#')).skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let [of, here, "1000", "ready", us, count] = cells[..] else { continue };
        let number = |text: &str| text.parse::<u64>().map_err(|error| format!("{line}: {error}"));
        let waits = if of == "delayq" { &mut delayq } else { &mut bare };
        shards = here;
        *waits.entry(number(us)?).or_default() += number(count)?;
    }
    if delayq.is_empty() || bare.is_empty() {
        return Err("the file has no rows of 1,000 messages a second".to_owned());
    }
    let count: u64 = delayq.values().sum();
    let title = format!("Lateness of {} messages, 1,000 a second, over {shards} shards", thousands(count));
    let mut picture = Picture::new(
        960,
        420,
        &title,
        "How long after its due time each message was ready, on Redis's clock.",
    );
    axes(&mut picture);
    let (most, bars) = (top(&[&delayq, &bare]), bars(&delayq));
    let step = WIDTH / BARS as f64;
    for (number, count) in bars.iter().enumerate().filter(|(_, count)| **count > 0) {
        let height = HEIGHT * *count as f64 / most as f64;
        let place = [LEFT + number as f64 * step + 1.0, TOP + HEIGHT - height, step - 2.0, height];
        picture.area("blue", place, 1.5, 0.9);
    }
    outline(&mut picture, &self::bars(&bare), most);
    for (y, part, name) in [(62.0, 0.5, "p50"), (76.0, 0.99, "p99")] {
        let us = percentile(&delayq, part);
        picture.line("line", [x(us as f64), y + 4.0], [x(us as f64), TOP + HEIGHT]);
        let label = format!("{name} {:.2} ms", us as f64 / 1000.0);
        picture.text([x(us as f64) + 5.0, y + 8.0], "strong small halo", Anchor::Start, &label);
    }
    let legend = format!(
        "Bars: delayq, due → ready. Line: a bare loop over one sorted set in the same run (p50 {:.2} ms, p99 {:.2} ms). \
         The first bar holds all below 0.01 ms.",
        percentile(&bare, 0.5) as f64 / 1000.0,
        percentile(&bare, 0.99) as f64 / 1000.0
    );
    picture.text([24.0, 400.0], "small soft", Anchor::Start, &legend);
    Ok(picture.finish())
}

fn axes(picture: &mut Picture) {
    for (us, label) in [(10.0, "0.01 ms"), (100.0, "0.1 ms"), (1e3, "1 ms"), (1e4, "10 ms"), (1e5, "100 ms")]
    {
        picture.line("grid", [x(us), TOP], [x(us), TOP + HEIGHT]);
        picture.text([x(us), TOP + HEIGHT + 20.0], "small soft", Anchor::Middle, label);
    }
    picture.line("grid", [LEFT, TOP + HEIGHT], [LEFT + WIDTH, TOP + HEIGHT]);
    picture.text([LEFT - 10.0, TOP + 10.0], "small soft", Anchor::End, "messages");
}

fn outline(picture: &mut Picture, bars: &[u64; BARS], most: u64) {
    let step = WIDTH / BARS as f64;
    let y = |count: u64| TOP + HEIGHT - HEIGHT * count as f64 / most as f64;
    for (number, pair) in bars.windows(2).enumerate() {
        let at = LEFT + (number + 1) as f64 * step;
        if pair != [0, 0] {
            picture.line("line", [at - step, y(pair[0])], [at, y(pair[0])]);
            picture.line("line", [at, y(pair[0])], [at, y(pair[1])]);
        }
    }
}

fn x(us: f64) -> f64 {
    LEFT + WIDTH * ((us / FROM_US).log10() / DECADES).clamp(0.0, 1.0)
}

fn bars(waits: &Waits) -> [u64; BARS] {
    let mut bars = [0; BARS];
    for (&us, count) in waits {
        let part = ((us.max(1) as f64 / FROM_US).log10() / DECADES).clamp(0.0, 1.0);
        bars[((part * BARS as f64) as usize).min(BARS - 1)] += count;
    }
    bars
}

fn top(all: &[&Waits]) -> u64 {
    all.iter().flat_map(|waits| bars(waits)).max().unwrap_or(1)
}

fn percentile(waits: &Waits, part: f64) -> u64 {
    let all: u64 = waits.values().sum();
    let (mut left, mut last) = ((all as f64 * part).ceil() as u64, 0);
    for (&us, &count) in waits {
        last = us;
        if count >= left {
            break;
        }
        left -= count;
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_the_wait_that_so_many_do_not_exceed() {
        let waits = Waits::from([(10, 50), (20, 49), (30, 1)]);
        assert_eq!([0.5, 0.99, 1.0].map(|part| percentile(&waits, part)), [10, 20, 30]);
        assert_eq!(bars(&waits).iter().sum::<u64>(), 100);
    }
}
