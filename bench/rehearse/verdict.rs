//! The verdict: deliveries compared with the log. Pure.

use crate::deliveries::Deliveries;
use crate::journal::{Journal, Odd};
use crate::script::{Act, Expected, Script};
use delayq_cli::output::Output;
use serde::Serialize;
use std::collections::BTreeSet;

type Key = (String, String);

const EXAMPLES: usize = 5;

#[derive(Debug, Serialize)]
pub(crate) struct Verdict {
    pub(crate) result: Conclusion,
    /// In the log, and answered as expected; so are the next two.
    pub(crate) put: Pair,
    pub(crate) rescheduled: Pair,
    pub(crate) cancelled: Pair,
    pub(crate) delivered: Pair,
    /// Repeated deliveries; only allowed after a kill.
    pub(crate) duplicates: usize,
    /// Messages not delivered against the log.
    pub(crate) missing: usize,
    /// Messages delivered against the log.
    pub(crate) unexpected: usize,
    /// Deliveries with another due time than the log's.
    pub(crate) misdated: usize,
    pub(crate) early: usize,
    /// Messages excluded from the verdict: this machine changed them after their due time, and received that answer.
    pub(crate) too_late: usize,
    pub(crate) unreadable: u64,
    pub(crate) unbalanced: Vec<String>,
    /// p50, p90, p99, maximum of ready − due.
    pub(crate) lateness_ms: [f64; 4],
    pub(crate) lives: u32,
    pub(crate) examples: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Conclusion {
    Exact,
    /// Exact except for messages that were changed too late to judge.
    Inconclusive,
    Wrong,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Pair {
    pub(crate) expected: usize,
    pub(crate) seen: usize,
}

pub(crate) fn judge(
    script: &Script,
    journal: &Journal,
    deliveries: &Deliveries,
    unbalanced: Vec<String>,
) -> Verdict {
    let late: BTreeSet<usize> = journal.odd.iter().filter(|odd| odd.late).map(|odd| odd.line).collect();
    let late_steps = script.steps.iter().filter(|step| late.contains(&step.line));
    let not_judged: BTreeSet<Key> =
        late_steps.map(|step| (step.topic.to_string(), step.target.id.to_string())).collect();
    let mut verdict = Verdict {
        result: Conclusion::Wrong,
        put: pair(script, journal, |act| matches!(act, Act::Put { .. })),
        rescheduled: pair(script, journal, |act| matches!(act, Act::Reschedule { .. })),
        cancelled: pair(script, journal, |act| matches!(act, Act::Cancel)),
        delivered: Pair { expected: script.deliveries(), seen: 0 },
        duplicates: 0,
        missing: 0,
        unexpected: 0,
        misdated: 0,
        early: 0,
        too_late: not_judged.len(),
        unreadable: deliveries.unreadable,
        unbalanced,
        lateness_ms: [0.5, 0.9, 0.99, 1.0].map(|quantile| deliveries.late_ms(quantile)),
        lives: journal.lives,
        examples: journal
            .odd
            .iter()
            .take(EXAMPLES)
            .map(|Odd { line, answer, .. }| format!("line {line}: {answer}"))
            .collect(),
    };
    verdict.compare(script, journal, deliveries, &not_judged);
    let answered = [verdict.put, verdict.rescheduled, verdict.cancelled, verdict.delivered];
    let right = answered.iter().all(|pair| pair.expected == pair.seen)
        && [verdict.missing, verdict.unexpected, verdict.misdated, verdict.early] == [0; 4]
        && verdict.unbalanced.is_empty()
        // Deliveries in flight at a kill repeat, and the last line may be torn.
        && (journal.lives > 1 || (verdict.duplicates == 0 && verdict.unreadable == 0));
    verdict.result = match (right, not_judged.is_empty()) {
        (true, true) => Conclusion::Exact,
        (true, false) => Conclusion::Inconclusive,
        (false, _) => Conclusion::Wrong,
    };
    verdict
}

fn pair(script: &Script, journal: &Journal, is: impl Fn(&Act) -> bool) -> Pair {
    let odd = |line: usize| journal.odd.iter().any(|odd| odd.line == line && !odd.late);
    let of_kind = |steps: &[crate::script::Step]| steps.iter().filter(|step| is(&step.act)).count();
    let done = &script.steps[..journal.done.min(script.steps.len())];
    let wrong = done.iter().filter(|step| is(&step.act) && odd(step.line)).count();
    Pair { expected: of_kind(&script.steps), seen: of_kind(done) - wrong }
}

// === impl Verdict ===

impl Verdict {
    fn compare(
        &mut self,
        script: &Script,
        journal: &Journal,
        deliveries: &Deliveries,
        not_judged: &BTreeSet<Key>,
    ) {
        let topics = script.topics();
        for (key, seen) in deliveries.seen.iter().filter(|(key, _)| !not_judged.contains(*key)) {
            let (topic, id) = key;
            match script.expected.get(key) {
                Some(Expected::Delivered { due_ms }) => {
                    self.delivered.seen += 1;
                    self.duplicates += seen.len() - 1;
                    let due_ms = journal.day.real(*due_ms).get();
                    for delivery in seen {
                        // A killed forwarder's messages are due again when the lease ends.
                        let is_again = delivery.attempt > 1 && journal.lives > 1;
                        if delivery.due_ms != due_ms && !(is_again && delivery.due_ms > due_ms) {
                            self.misdated += 1;
                            self.example(format!("{id} was due {} ms, not {due_ms} ms", delivery.due_ms));
                        }
                        if delivery.ready_ms < delivery.due_ms {
                            self.early += 1;
                            self.example(format!(
                                "{id} was ready at {} ms, due {due_ms} ms",
                                delivery.ready_ms
                            ));
                        }
                    }
                }
                Some(Expected::Cancelled) => {
                    self.unexpected += 1;
                    self.example(format!("{id} was cancelled, and delivered"));
                }
                None if topics.iter().any(|known| known.as_str() == topic) => {
                    self.unexpected += 1;
                    self.example(format!("{id} of {topic} is not in the log"));
                }
                None => {}
            }
        }
        for (key, expected) in &script.expected {
            let delivered = matches!(expected, Expected::Delivered { .. });
            if delivered && not_judged.contains(key) {
                self.delivered.expected -= 1;
            } else if delivered && !deliveries.seen.contains_key(key) {
                self.missing += 1;
                self.example(format!("{} was not delivered", key.1));
            }
        }
    }

    fn example(&mut self, text: String) {
        if self.examples.len() < EXAMPLES {
            self.examples.push(text);
        }
    }

    pub(crate) fn table(&self, output: Output) -> String {
        let mut rows = output.rows(&["", ">expected", ">seen"]);
        let pairs = [
            ("put", self.put),
            ("rescheduled", self.rescheduled),
            ("cancelled", self.cancelled),
            ("delivered", self.delivered),
        ];
        for (name, pair) in pairs {
            let cells = [name.to_owned(), pair.expected.to_string(), pair.seen.to_string()];
            rows.judged(pair.expected == pair.seen, cells);
        }
        let faults = [
            ("missing", self.missing),
            ("unexpected", self.unexpected),
            ("at another time", self.misdated),
            ("early", self.early),
            ("books that do not balance", self.unbalanced.len()),
        ];
        for (name, count) in faults {
            rows.judged(count == 0, [name.to_owned(), "0".to_owned(), count.to_string()]);
        }
        if self.too_late > 0 {
            rows.judged(
                false,
                ["changed too late to judge".to_owned(), String::new(), self.too_late.to_string()],
            );
        }
        let (name, allowed) =
            if self.lives > 1 { ("delivered again, after a kill", "few") } else { ("delivered again", "0") };
        rows.judged(
            self.lives > 1 || self.duplicates == 0,
            [name.to_owned(), allowed.to_owned(), self.duplicates.to_string()],
        );
        for (name, late_ms) in ["p50", "p90", "p99", "max"].into_iter().zip(self.lateness_ms) {
            rows.row([format!("lateness {name}, ms"), String::new(), format!("{late_ms:.3}")]);
        }
        let examples: String = self.examples.iter().map(|example| format!("\n  {example}")).collect();
        format!("{}{examples}", rows.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::day::Day;
    use crate::deliveries::Delivery;
    use std::path::Path;

    fn log() -> Script {
        let put = |id: &str, due: &str| {
            format!(
                r#"{{"at":"2013-02-08T07:00:00Z","put":{{"topic":"t","id":"{id}","due":"2013-02-08T{due}:00Z","payload":1}}}}"#
            )
        };
        let cancel = r#"{"at":"2013-02-08T07:30:00Z","cancel":{"topic":"t","id":"b"}}"#;
        Script::parse(&format!("{}\n{}\n{cancel}", put("a", "08:00"), put("b", "09:00"))).unwrap()
    }

    fn verdict_of(seen: &[(&str, u64, u64, u32)], lives: u32, odd: &[(usize, bool)]) -> Verdict {
        let script = log();
        let day = Day { first_ms: script.first_ms, last_ms: script.last_ms, start_ms: 1_000_000, speed: 1.0 };
        let mut journal = Journal::new(&script, day, 0);
        (journal.done, journal.lives) = (3, lives);
        let answer = || "unknown".to_owned();
        journal.odd = odd.iter().map(|&(line, late)| Odd { line, answer: answer(), late }).collect();
        let mut deliveries = Deliveries::new(Path::new("none"), 0);
        for (id, due_ms, ready_ms, attempt) in seen {
            let delivery = Delivery { due_ms: *due_ms, ready_ms: *ready_ms, attempt: *attempt };
            deliveries.seen.entry(("t".to_owned(), (*id).to_owned())).or_default().push(delivery);
        }
        judge(&script, &journal, &deliveries, Vec::new())
    }

    const DUE: u64 = 4_600_000;

    #[test]
    fn only_exactly_what_the_log_says_is_exact() {
        assert_eq!(verdict_of(&[("a", DUE, DUE, 1)], 1, &[]).result, Conclusion::Exact);
        for (seen, odd) in [
            (&[][..], &[][..]),
            (&[("a", DUE, DUE, 1), ("b", DUE, DUE, 1)], &[]),
            (&[("a", DUE, DUE, 1), ("c", DUE, DUE, 1)], &[]),
            (&[("a", DUE + 1, DUE + 1, 1)], &[]),
            (&[("a", DUE, DUE - 1, 1)], &[]),
            (&[("a", DUE, DUE, 1), ("a", DUE, DUE, 1)], &[]),
            (&[("a", DUE, DUE, 1)], &[(3, false)]),
            // A late cancel explains only its own message.
            (&[("b", DUE, DUE, 1)], &[(3, true)]),
        ] {
            let verdict = verdict_of(seen, 1, odd);
            assert_eq!(verdict.result, Conclusion::Wrong, "{seen:?} {odd:?}: {verdict:?}");
        }
    }

    #[test]
    fn a_message_that_was_changed_too_late_is_not_judged() {
        for seen in [&[("a", DUE, DUE, 1)][..], &[("a", DUE, DUE, 1), ("b", DUE, DUE, 1)]] {
            let verdict = verdict_of(seen, 1, &[(3, true)]);
            assert_eq!((verdict.result, verdict.too_late), (Conclusion::Inconclusive, 1), "{verdict:?}");
        }
    }

    #[test]
    fn a_second_delivery_is_only_allowed_after_a_kill() {
        let twice = [("a", DUE, DUE, 1), ("a", DUE, DUE + 5000, 1)];
        assert_eq!(verdict_of(&twice, 1, &[]).result, Conclusion::Wrong);
        let verdict = verdict_of(&twice, 2, &[]);
        assert_eq!(verdict.result, Conclusion::Exact);
        assert_eq!(verdict.duplicates, 1);
    }

    #[test]
    fn a_further_attempt_is_due_later_after_a_kill_alone() {
        for (attempt, lives, result) in
            [(2, 2, Conclusion::Exact), (2, 1, Conclusion::Wrong), (1, 2, Conclusion::Wrong)]
        {
            let verdict = verdict_of(&[("a", DUE + 9000, DUE + 9000, attempt)], lives, &[]);
            assert_eq!(verdict.result, result, "attempt {attempt}, {lives} lives: {verdict:?}");
        }
        assert_eq!(verdict_of(&[("a", DUE - 1, DUE, 2)], 2, &[]).result, Conclusion::Wrong);
    }
}
