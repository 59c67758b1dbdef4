//! Promotion: delayed messages become ready now.

use super::{Call, Model, Outcome, same, same_bytes};
use crate::action::Promote;
use crate::snapshot::Name;

const HOUR_MS: u64 = 3_600_000;

type Entry = (u64, Vec<u8>, Name);

// === impl Model ===

impl Model {
    pub(super) fn promote(&mut self, promote: &Promote, call: &Call<'_>) -> Outcome {
        let only = self.no(&promote.topic);
        if !promote.topic.is_empty() && only.is_none() {
            let nothing = ["done".into(), "0".into(), "0".into(), promote.from.to_string(), String::new()];
            return same("promote", call.words.as_slice(), &nothing);
        }
        let (page, wanted) = self.promote_step(only, promote, call);
        let mut promoted = 0;
        for name in page {
            let is_meant = only.is_none_or(|no| no == name.0) && self.messages[&name].word() == "delayed";
            if is_meant {
                self.move_to(&name, self.now());
                self.shifts.values_mut().for_each(|shift| shift.moved.retain(|(moved, _)| *moved != name));
                promoted += 1;
            }
        }
        let counts = [promoted, 0].map(|n: u64| n.to_string().into_bytes());
        same_bytes("promoted", &call.answer[1..3], &counts)?;
        let [word, from, last] = wanted;
        same_bytes("promote", &call.answer[..1], &[word])?;
        same_bytes("next", &call.answer[3..], &[from, last])
    }

    fn promote_step(
        &self,
        only: Option<u32>,
        promote: &Promote,
        call: &Call<'_>,
    ) -> (Vec<Name>, [Vec<u8>; 3]) {
        let text = |n: u64| n.to_string().into_bytes();
        let from = promote.from.max(self.now() + 1);
        let last = if promote.from == from { promote.last.as_slice() } else { &[] };
        let mut page: Vec<Entry> = match only.filter(|_| promote.group.is_empty()) {
            Some(no) => self.in_order(no, "delayed", (from, promote.to), call.before),
            None => self
                .group(&promote.group)
                .into_iter()
                .map(|((at, member), name)| (at, member, name))
                .collect(),
        };
        let hour = page.first().map(|(at, ..)| at / HOUR_MS).filter(|_| promote.group.is_empty());
        page.retain(|(at, ..)| *at >= from && hour.is_none_or(|hour| at / HOUR_MS == hour));
        page.retain(|(at, member, _)| last.is_empty() || (*at, member.as_slice()) > (from, last));
        page.truncate(promote.limit as usize);
        let is_full = page.len() as u64 == promote.limit;
        let is_beyond = page.iter().any(|(at, ..)| *at > promote.to);
        page.retain(|(at, ..)| *at <= promote.to);
        let next = match (page.last(), hour) {
            (Some((at, member, _)), _) if is_full && !is_beyond => {
                [b"more".to_vec(), text(*at), member.clone()]
            }
            (_, Some(hour)) if (hour + 1) * HOUR_MS <= promote.to => {
                [b"more".to_vec(), text((hour + 1) * HOUR_MS), Vec::new()]
            }
            _ => [b"done".to_vec(), text(from), Vec::new()],
        };
        (page.into_iter().map(|(_, _, name)| name).collect(), next)
    }
}
