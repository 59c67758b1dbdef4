//! Cancelling and rescheduling: one by one, or a whole group in steps.

use super::{Call, Model, Outcome, Place, Shift, index_name, same, same_bytes};
use crate::action::Mark;
use crate::snapshot::Name;
use delayq::UnixMillis;
use std::collections::BTreeSet;

// === impl Model ===

impl Model {
    pub(super) fn cancel(&mut self, name: &Name) -> String {
        let Some(msg) = self.messages.get_mut(name) else { return "unknown".into() };
        match &msg.place {
            Place::Leased { .. } => {
                (msg.stored.doomed, msg.successor) = (true, None);
                "leased".into()
            }
            Place::Dead => "dead".into(),
            Place::Over { word: "cancelled", .. } => "cancelled".into(),
            Place::Over { word, .. } => format!("finished {word} {}", msg.stored.at),
            Place::Delayed | Place::Ready => {
                self.finish(name, "cancelled");
                "cancelled".into()
            }
        }
    }

    pub(crate) fn group(&self, group: &str) -> Vec<(Mark, Name)> {
        let here = self.messages.iter().filter(|(_, msg)| msg.in_group(group));
        let mut all: Vec<(Mark, Name)> =
            here.map(|(name, msg)| ((msg.due(), index_name(name)), name.clone())).collect();
        all.sort();
        all
    }

    /// An empty topic matches every message.
    fn is_of(&self, name: &Name, topic: &str) -> bool {
        topic.is_empty() || self.no(topic) == Some(name.0)
    }

    /// A page of a group after a mark, and the time and name that the script answers for the next page.
    pub(super) fn page_of_group(&self, group: &str, behind: &Mark, limit: u64) -> (Vec<Name>, [Vec<u8>; 2]) {
        let mut page = self.group(group);
        page.retain(|(mark, _)| mark > behind);
        page.truncate(limit as usize);
        let last = page.last().filter(|_| page.len() as u64 == limit).map(|(mark, _)| mark.clone());
        let next = last.map_or_else(Default::default, |(at, name)| [at.to_string().into_bytes(), name]);
        (page.into_iter().map(|(_, name)| name).collect(), next)
    }

    pub(super) fn cancel_group(
        &mut self,
        (group, topic): (&str, &str),
        behind: &Mark,
        limit: u64,
        call: &Call<'_>,
    ) -> Outcome {
        let (mut step, next) = self.page_of_group(group, behind, limit);
        step.retain(|name| self.is_of(name, topic));
        let leased = step.iter().filter(|name| self.messages[*name].is_leased()).count();
        step.iter().for_each(|name| drop(self.cancel(name)));
        let tally = [step.len() - leased, leased, 0].map(|n| n.to_string().into_bytes());
        same_bytes("cancel_group", call.answer, &[&next[..], &tally[..]].concat())
    }

    pub(super) fn reschedule_all(
        &mut self,
        topic: &str,
        changes: &[(Vec<u8>, String, Option<u64>)],
        call: &Call<'_>,
    ) -> Outcome {
        let no = self.no(topic);
        for ((id, due, expected), word) in changes.iter().zip(&call.words) {
            let wanted = match no {
                None => "unknown".to_owned(),
                Some(no) => self.reschedule(&(no, id.clone()), due, *expected),
            };
            same("reschedule", word, &wanted)?;
        }
        same("answers", call.words.len(), changes.len())
    }

    fn reschedule(&mut self, name: &Name, text: &str, expected: Option<u64>) -> String {
        let Some(msg) = self.messages.get(name) else { return "unknown".into() };
        match &msg.place {
            Place::Leased { .. } => return "leased".into(),
            Place::Dead => return "dead".into(),
            Place::Over { word, .. } => return format!("finished {word} {}", msg.stored.at),
            Place::Delayed | Place::Ready => {}
        }
        let due = match text.strip_prefix("by ") {
            Some(by) => expected.and_then(|expected| expected.checked_add_signed(by.parse().unwrap())),
            None => Some(self.due_of(text)),
        };
        let old = msg.due();
        let Some(due) = due.filter(|&due| due > 0) else { return "refused due time".into() };
        if self.expiry_at(name, due).is_some_and(|expires| expires <= due) {
            return "refused expiry not after the due time".into();
        }
        if expected.is_some_and(|expected| old != expected && old != due) {
            return format!("changed {old}");
        }
        if old != due {
            self.messages.get_mut(name).unwrap().stored.blocks = false;
            self.move_to(name, due);
            // A shift in progress may meet the message again in its new place.
            self.shifts.values_mut().for_each(|shift| shift.moved.retain(|(moved, _)| moved != name));
        }
        format!("{} {old} {due}", self.messages[name].word())
    }

    pub(super) fn expiry_at(&self, name: &Name, due: u64) -> Option<u64> {
        let msg = &self.messages[name];
        let expires = msg.expires()?;
        let lifetime = msg.stored.lifetime.map(|lifetime| lifetime.as_millis() as u64);
        let after = match lifetime.unwrap_or_else(|| self.policy(name.0, "expire_after_ms")) {
            0 => UnixMillis::MAX.get(),
            after => after,
        };
        Some(if msg.stored.relative { due.saturating_add(after).min(UnixMillis::MAX.get()) } else { expires })
    }

    pub(super) fn move_to(&mut self, name: &Name, due: u64) {
        let expires = self.expiry_at(name, due).map(UnixMillis::new);
        let old = &self.messages[name];
        let ready_since = old.stored.at;
        let stays_ready = old.place == Place::Ready
            && self.place_for(due) == Place::Ready
            && due <= old.due().max(ready_since.get());
        self.put_to(name, due);
        let msg = self.messages.get_mut(name).unwrap();
        msg.stored.expires = expires;
        if stays_ready {
            msg.stored.at = ready_since;
        }
    }

    fn may_move(&self, name: &Name, by: i64) -> bool {
        let msg = &self.messages[name];
        let due = msg.due().checked_add_signed(by).filter(|&due| due > 0);
        let fits = |due| self.expiry_at(name, due).is_none_or(|expires| expires > due);
        msg.is_pending() && due.is_some_and(fits)
    }

    /// The script chooses the length of a step, but must move no life twice.
    pub(super) fn shift_group(
        &mut self,
        (group, topic): (&str, &str),
        token: &str,
        (by, limit): (i64, u64),
        call: &Call<'_>,
    ) -> Outcome {
        let words = call.words.as_slice();
        let is_same = |shift: &Shift| shift.token == token && shift.topic == topic;
        if let Some(shift) = self.shifts.get(group) {
            if is_same(shift) && shift.over {
                return same("shift_group", words, &["done".to_owned(), "0".into(), "0".into()]);
            }
            if !is_same(shift) && !shift.over {
                return same("shift_group", words, &["busy".to_owned(), "0".into(), "0".into()]);
            }
        }
        let (token, topic) = (token.to_owned(), topic.to_owned());
        let mut shift = match self.shifts.remove(group) {
            Some(shift) if is_same(&shift) => shift,
            _ => Shift { token, topic, by, over: false, forget: 0, moved: BTreeSet::new() },
        };
        same("difference", by, shift.by)?;
        let mut moved = 0;
        let members: Vec<Name> = self.group(group).into_iter().map(|(_, name)| name).collect();
        for name in members.into_iter().filter(|name| self.is_of(name, &shift.topic)).collect::<Vec<_>>() {
            let msg = &self.messages[&name];
            let due = msg.due().saturating_add_signed(by);
            let stored = call.after.envelope(&name).ok_or_else(|| format!("{name:?} is gone"))?;
            if stored.due.get() == due && msg.due() != due {
                same("a message that may move", self.may_move(&name, by), true)?;
                let was = call.before.envelope(&name).map_or(0, |stored| stored.generation);
                same("moved before under this token", shift.moved.contains(&(name.clone(), was)), false)?;
                shift.moved.insert((name.clone(), stored.generation));
                moved += 1;
                self.move_to(&name, due);
            }
        }
        same("moved", call.number(1)?, moved)?;
        let passed = call.number(2)?;
        if moved + passed > limit {
            return Err(format!("{moved} + {passed} at a limit of {limit}"));
        }
        shift.over = words[0] == "done";
        same("word", words[0].as_str(), if shift.over { "done" } else { "more" })?;
        shift.forget = self.now() + 3_600_000;
        self.shifts.insert(group.to_owned(), shift);
        Ok(())
    }
}
