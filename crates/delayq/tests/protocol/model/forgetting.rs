//! Empty topics, which may be forgotten.

use super::{Call, Model, Outcome, same};
use std::collections::BTreeSet;

const REMEMBERED_MS: u64 = 3_600_000;

// === impl Model ===

impl Model {
    pub(super) fn forget(&mut self, topic: &str, call: &Call<'_>) -> Outcome {
        let Some(no) = self.no(topic) else {
            return same("forget", call.words.as_slice(), &["unknown".into()]);
        };
        if self.is_drained(no) && !has_entries(no, call) {
            self.forget_topic(no);
            return same("forget", call.words.as_slice(), &["forgotten".into()]);
        }
        same("forget", call.words[0].starts_with("kept "), true)
    }

    pub(super) fn forget_quiet(&mut self, quiet: u64, call: &Call<'_>) -> Outcome {
        let numbers: Vec<u32> =
            (1..).zip(&self.topics).filter(|(_, name)| !name.is_empty()).map(|(no, _)| no).collect();
        let mut forgotten = BTreeSet::new();
        for no in numbers {
            if !self.held && self.is_quiet(no, quiet) && !has_entries(no, call) {
                forgotten.insert(self.topics[no as usize - 1].clone());
                self.forget_topic(no);
            }
        }
        same("next page", call.words[0].as_str(), "0")?;
        same("forgotten", call.words[1..].iter().cloned().collect(), forgotten)
    }

    pub(super) fn note_remembered(&mut self, no: u32, ms: u64) {
        if ms > self.remembered.get(&no).copied().unwrap_or(REMEMBERED_MS) {
            self.remembered.insert(no, ms);
        }
    }

    /// Fields and values that scripts note of a topic, other than its rate.
    pub(crate) fn notes(&self, no: u32) -> Vec<(String, Vec<u8>)> {
        let quiet = self.quiet.get(&no).map(|(accepted, since)| ("quiet", format!("{accepted} {since}")));
        let remembered = self.remembered.get(&no).map(|ms| ("remembered_ms", ms.to_string()));
        let grouped = self.grouped.contains(&no).then(|| ("grouped", "1".to_owned()));
        let paused = self.any_paused_group(no).then(|| ("paused_groups", "1".to_owned()));
        quiet
            .into_iter()
            .chain(remembered)
            .chain(grouped)
            .chain(paused)
            .map(|(note, value)| (note.to_owned(), value.into_bytes()))
            .collect()
    }

    /// Notes that an empty topic was seen empty; true once the topic has been empty for long enough.
    fn is_quiet(&mut self, no: u32, quiet: u64) -> bool {
        if self.settings.keys().any(|(own, _)| *own == no)
            || self.any_paused_group(no)
            || !self.is_drained(no)
        {
            return false;
        }
        let (now, accepted) = (self.now(), self.books.get(&("accepted", no)).copied().unwrap_or(0));
        match self.quiet.get(&no) {
            Some(&(before, since)) if before == accepted && since <= now => {
                now - since > quiet.max(self.remembered.get(&no).copied().unwrap_or(REMEMBERED_MS))
            }
            _ => {
                self.quiet.insert(no, (accepted, now));
                false
            }
        }
    }

    fn is_drained(&self, no: u32) -> bool {
        self.messages.iter().all(|(name, msg)| name.0 != no || msg.is_over())
    }

    fn forget_topic(&mut self, no: u32) {
        self.topics[no as usize - 1].clear();
        self.settings.retain(|(own, _), _| *own != no);
        self.books.retain(|(_, own), _| *own != no);
        self.rates.remove(&no);
        self.grouped.remove(&no);
        self.group_rates.retain(|(own, _), _| *own != no);
        self.paused_groups.retain(|(own, _), _| *own != no);
        self.quiet.remove(&no);
        self.remembered.remove(&no);
    }
}

/// Stale entries of finished messages may be left.
fn has_entries(no: u32, call: &Call<'_>) -> bool {
    call.before.ready.contains_key(&no) || !call.before.index(&format!("k:{no}")).is_empty()
}
