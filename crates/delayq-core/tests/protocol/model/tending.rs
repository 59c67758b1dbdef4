//! What operators and owners do: purge, configure, claim, hold, dictionaries.

use super::{Call, Model, Msg, Outcome, Place, same};
use crate::{
    action::Purge,
    snapshot::{Name, lossy},
};

// === impl Model ===

impl Model {
    pub(super) fn purge(&mut self, purge: &Purge, call: &Call<'_>) -> Outcome {
        let Some(no) = self.no(&purge.topic) else {
            return same(
                "purge",
                call.words.as_slice(),
                &["done".into(), "0".into(), purge.from.to_string()],
            );
        };
        let (step, looked_at) = self.purge_step(no, purge, call);
        let mut purged = 0;
        for name in &step {
            // What a broken key keeps from going is kept.
            let is_kept = call.broken && call.after.bodies.get(name) == call.before.bodies.get(name);
            if !is_kept {
                self.finish(name, "purged");
                purged += 1;
            }
        }
        same("purged", call.number(1)?, purged)?;
        if call.broken && purged < step.len() as u64 {
            return Ok(());
        }
        let more = if purge.state == "delayed" { looked_at > 0 } else { looked_at == purge.limit };
        same("word", call.words[0].as_str(), if more { "more" } else { "done" })?;
        same("from", call.number(2)?, purge.from)
    }

    /// What the step has to purge, and how many entries it looks at for that.
    fn purge_step(&self, no: u32, purge: &Purge, call: &Call<'_>) -> (Vec<Name>, u64) {
        if purge.state == "ready" {
            let queue = call.before.ready.get(&no).map_or(&[][..], Vec::as_slice);
            let page = &queue[..queue.len().min(purge.limit as usize)];
            let name = |entry: &Vec<u8>| self.ready_message(no, entry, call.before);
            return (page.iter().filter_map(name).collect(), page.len() as u64);
        }
        let mut all = self.in_order(no, purge.state, (purge.from, purge.to), call.before);
        if purge.state == "delayed" {
            let first_hour = all.first().map_or(0, |(due, _)| due / 3_600_000);
            all.retain(|(due, _)| due / 3_600_000 == first_hour);
        }
        all.truncate(purge.limit as usize);
        let looked_at = all.len() as u64;
        (all.into_iter().map(|(_, name)| name).collect(), looked_at)
    }

    pub(super) fn configure(
        &mut self,
        topic: &str,
        settings: &[(&'static str, Vec<u8>)],
        call: &Call<'_>,
    ) -> Outcome {
        let no = self.open(topic);
        for (field, value) in settings {
            if value.is_empty() {
                self.settings.remove(&(no, (*field).to_owned()));
            } else {
                self.settings.insert((no, (*field).to_owned()), value.clone());
            }
        }
        self.describe(topic, call)
    }

    pub(super) fn claim(&mut self, owner: &str, lock: u64, call: &Call<'_>) -> Outcome {
        let now = self.now();
        let (known, until) = self.owner.clone().unwrap_or_default();
        let locked = until > now && until <= now + lock.max(300_000);
        let (word, holder) = match (lock > 0 && locked, known == owner) {
            (true, false) => ("owned", known),
            (true, true) => ("renewed", known),
            _ => ("claimed", owner.to_owned()),
        };
        if word == "claimed" {
            self.epoch += 1;
        }
        if word != "owned" {
            self.owner = Some((owner.to_owned(), if lock > 0 { now + lock } else { 0 }));
        }
        let next = next_due(call);
        let wanted = [word.to_owned(), self.epoch.to_string(), self.now_us.to_string(), holder, next];
        same("claim", call.words.as_slice(), &wanted)
    }

    pub(super) fn hold(&mut self, epoch: u64, on: bool, call: &Call<'_>) -> Outcome {
        let fenced = epoch < self.epoch;
        if !fenced {
            self.held = on;
        }
        let wanted = match (fenced, on) {
            (true, _) => format!("fenced {}", self.epoch),
            (_, true) => "held".to_owned(),
            (_, false) => "free".to_owned(),
        };
        same("hold", call.words.as_slice(), &[wanted])
    }

    pub(super) fn dictionary(&mut self, number: u64, bytes: &[u8], call: &Call<'_>) -> Outcome {
        let known = self.dictionaries.entry(number.to_string()).or_insert_with(|| bytes.to_vec()).clone();
        if known.is_empty() {
            self.dictionaries.remove(&number.to_string());
        }
        same("dictionary", call.answer, &[known])
    }

    /// The message that an entry of a ready queue stands for; nothing where it is stale.
    pub(super) fn ready_message(
        &self,
        no: u32,
        entry: &[u8],
        shard: &crate::snapshot::Snapshot,
    ) -> Option<Name> {
        let (id, rest) = entry.split_at_checked(entry.len().checked_sub(11)?)?;
        let name = (no, id.to_vec());
        let is_ready = self.messages.get(&name).is_some_and(|msg| msg.place == Place::Ready);
        (is_ready && shard.bodies[&name][4..8] == rest[..4]).then_some(name)
    }

    /// The messages of a topic in one state, with their times in a range, in the order of their index.
    pub(super) fn in_order(
        &self,
        no: u32,
        state: &str,
        (from, to): (u64, u64),
        shard: &crate::snapshot::Snapshot,
    ) -> Vec<(u64, Name)> {
        let time = |msg: &Msg| match &msg.place {
            Place::Leased { until, .. } => *until,
            Place::Dead => msg.stored.at.get(),
            _ => msg.due(),
        };
        let here = |(name, msg): &(&Name, &Msg)| {
            name.0 == no && msg.word() == state && (from..=to).contains(&time(msg))
        };
        let gen_of = |name: &Name| shard.bodies[name][4..8].to_vec();
        let mut all: Vec<_> = self
            .messages
            .iter()
            .filter(here)
            .map(|(name, msg)| (time(msg), [name.1.clone(), gen_of(name)].concat(), name.clone()))
            .collect();
        all.sort();
        all.into_iter().map(|(time, _, name)| (time, name)).collect()
    }
}

/// The shard's next due time, as the scripts tell it.
pub(super) fn next_due(call: &Call<'_>) -> String {
    call.before.index("alarms").values().min().map(ToString::to_string).unwrap_or_default()
}

/// A policy as `configure` and `describe` answer it.
pub(super) fn pairs(answer: &[Vec<u8>]) -> std::collections::BTreeMap<String, Vec<u8>> {
    answer.chunks(2).map(|pair| (lossy(&pair[0]), pair.get(1).cloned().unwrap_or_default())).collect()
}
