//! Calls of operators and owners: purge, configure, claim, hold, dictionaries.

use super::limiting::QueueAt;
use super::{Call, Model, Msg, Outcome, Place, same, same_bytes};
use crate::action::Purge;
use crate::snapshot::{Name, lossy};

// === impl Model ===

impl Model {
    pub(super) fn purge(&mut self, purge: &Purge, call: &Call<'_>) -> Outcome {
        let Some(no) = self.no(&purge.topic) else {
            return same(
                "purge",
                call.words.as_slice(),
                &["done".into(), "0".into(), "0".into(), purge.from.to_string(), String::new()],
            );
        };
        let (step, wanted) = self.purge_step(no, purge, call);
        step.iter().for_each(|name| self.finish(name, "purged"));
        let counts = [step.len(), 0].map(|n| n.to_string().into_bytes());
        same_bytes("purged", &call.answer[1..3], &counts)?;
        let [word, from, last] = wanted;
        same_bytes("purge", &call.answer[..1], &[word])?;
        same_bytes("next", &call.answer[3..], &[from, last])
    }

    fn purge_step(&self, no: u32, purge: &Purge, call: &Call<'_>) -> (Vec<Name>, [Vec<u8>; 3]) {
        let text = |n: u64| n.to_string().into_bytes();
        let through = [b"done".to_vec(), text(purge.from), Vec::new()];
        if purge.state == "ready" {
            let at = QueueAt::of(no, &purge.last, call.before);
            let queue = at.entries;
            let left = lossy(&at.place).parse().unwrap_or(queue.len());
            let page = &queue[..queue.len().min(purge.limit as usize).min(left)];
            let step = page.iter().filter_map(|entry| self.ready_message(no, entry, call.before)).collect();
            let left = (left - page.len()) as u64;
            let more = left > 0 && !page.is_empty();
            let next = if more { Some(at.within(&text(left))) } else { at.next(call.before) };
            return (step, next.map_or(through, |next| [b"more".to_vec(), text(purge.from), next]));
        }
        let all = self.in_order(no, purge.state, (purge.from, purge.to), call.before);
        let hour = all.first().map(|(due, ..)| due / 3_600_000);
        let mut page = all;
        if purge.state == "delayed" {
            page.retain(|(due, ..)| Some(due / 3_600_000) == hour);
        }
        page.retain(|(time, member, _)| (*time, member) > (purge.from, &purge.last) || purge.last.is_empty());
        page.truncate(purge.limit as usize);
        let next = match (page.last(), hour) {
            (Some((time, member, _)), _) if page.len() as u64 == purge.limit => {
                [b"more".to_vec(), text(*time), member.clone()]
            }
            (_, Some(hour)) if purge.state == "delayed" && (hour + 1) * 3_600_000 <= purge.to => {
                [b"more".to_vec(), text((hour + 1) * 3_600_000), Vec::new()]
            }
            _ => through,
        };
        (page.into_iter().map(|(_, _, name)| name).collect(), next)
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
            if field.starts_with("group_") && !value.is_empty() {
                self.grouped.insert(no);
            }
            if *field == "group_rate" {
                self.group_rates.retain(|(own, _), _| *own != no);
            }
            if field.starts_with("remember_") {
                self.note_remembered(no, lossy(value).parse().unwrap_or(0));
            }
        }
        self.policy_of(topic, call.answer)
    }

    pub(super) fn claim(&mut self, owner: &str, lock: u64, call: &Call<'_>) -> Outcome {
        let now = self.now();
        let (known, until) = self.owner.clone().unwrap_or_default();
        let locked = until > now && until <= now + lock.max(300_000);
        let (worker, of_timer) =
            (owner.starts_with("worker/"), !known.is_empty() && !known.starts_with("worker/"));
        let refused = match lock > 0 && locked {
            true => worker || of_timer,
            false => worker && of_timer && until == 0 && !is_orphan(call, now),
        };
        let (word, holder) = match known == owner {
            false if refused => ("owned", known),
            true if lock > 0 && locked => ("renewed", known),
            _ => ("claimed", owner.to_owned()),
        };
        if word == "claimed" {
            self.epoch += 1;
        }
        if word != "owned" {
            self.owner = Some((owner.to_owned(), if lock > 0 { now + lock } else { 0 }));
        }
        let next = next_due(call);
        let mut wanted = vec![word.to_owned(), self.epoch.to_string(), self.now_us.to_string(), holder, next];
        if word == "owned" {
            wanted.push(if locked { (until - now).to_string() } else { String::new() });
        }
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

    /// `None` for a stale entry.
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

    /// Messages in the order of their index, with times in a range and entries.
    pub(super) fn in_order(
        &self,
        no: u32,
        state: &str,
        (from, to): (u64, u64),
        shard: &crate::snapshot::Snapshot,
    ) -> Vec<(u64, Vec<u8>, Name)> {
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
        all
    }
}

/// A claim of a worker or the pump of another timer found something overdue, and no owner has pumped since.
fn is_orphan(call: &Call<'_>, now: u64) -> bool {
    let meta = call.before.hashes.get("meta");
    let since = meta.and_then(|meta| lossy(meta.get("orphaned")?).parse::<u64>().ok());
    since.is_some_and(|since| since + 5_000 <= now)
}

pub(super) fn next_due(call: &Call<'_>) -> String {
    call.before.index("alarms").values().min().map(ToString::to_string).unwrap_or_default()
}

pub(super) fn pairs(answer: &[Vec<u8>]) -> std::collections::BTreeMap<String, Vec<u8>> {
    answer.chunks(2).map(|pair| (lossy(&pair[0]), pair.get(1).cloned().unwrap_or_default())).collect()
}
