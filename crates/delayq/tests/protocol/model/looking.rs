//! The answers of all scripts that only read.

use super::limiting::{QueueAt, turns};
use super::tending::{next_due, pairs};
use super::{Call, Model, Msg, Outcome, Place, same, same_bytes};
use crate::action::{Action, List, Mark};
use crate::snapshot::{Name, POISON, Snapshot, lossy, parse_name, parts};
use std::collections::{BTreeMap, BTreeSet};

const HOUR_MS: u64 = 3_600_000;
const HAS_REASON: u8 = 128;
/// In the flags' first byte.
const IS_HELD: u8 = 4;
const IS_PAUSED: u8 = 8;
const IS_BLOCKED: u8 = 128;

const BOOKS: [&str; 7] = ["accepted", "delivered", "cancelled", "expired", "purged", "replaced", "buried"];

/// A page of an index: the shown messages, and the start of the next page, as a time (empty at the end) and
/// the last entry.
#[derive(Default)]
struct Page {
    shown: Vec<Name>,
    next: String,
    last: Vec<u8>,
}

// === impl Model ===

impl Model {
    pub(super) fn look(&self, action: &Action, call: &Call<'_>) -> Outcome {
        match action {
            Action::Count { topic } => self.count(topic, call),
            Action::Peek { topic, ids } => {
                let no = self.no(topic).unwrap_or(0);
                let shown = ids.iter().map(|id| self.shown(&(no, id.clone()), call).unwrap_or_default());
                same("now", call.number(0)?, self.now_us)?;
                same_bytes("peek", &call.answer[1..], &shown.collect::<Vec<_>>())
            }
            Action::List(list) => self.list(list, call),
            Action::ListGroup { group, behind, limit } => self.list_group(group, behind, *limit, call),
            Action::Histogram { topic, from, to, width } => self.histogram(topic, (*from, *to, *width), call),
            Action::Audit { bodies } => self.audit(bodies, call),
            Action::AuditIndex { indexes } => self.audit_index(indexes, call),
            Action::Repair { .. } => {
                let is_sound = call.words.iter().all(|word| word == "sound");
                same("what is sound and left alone", is_sound, true)
            }
            Action::Recount { .. } => self.recount(call),
            Action::Overview => self.overview(call),
            Action::Survey { spans } => self.survey(spans, call),
            Action::Describe { topic } => self.describe(topic, call),
            Action::PausedGroups { topic, last, limit } => {
                let pauses = self.no(topic).map_or(Vec::new(), |no| self.pauses_of(no));
                let pauses = pauses.into_iter().filter(|pause| last.as_ref().is_none_or(|last| pause > last));
                let pauses = pauses.take(*limit as usize);
                let wanted = pauses.flat_map(|(at, group)| [group, at.to_string().into_bytes()]);
                same_bytes("paused groups", call.answer, &wanted.collect::<Vec<_>>())
            }
            Action::History { topic, id } => self.history(topic, id, call),
            moving => unreachable!("{moving:?} has a rule of its own"),
        }
    }

    /// A message as listed: a ready message gets the state READY, a leased one the mark of its successor, and a dead letter its
    /// reason.
    fn shown(&self, name: &Name, call: &Call<'_>) -> Option<Vec<u8>> {
        let msg = self.messages.get(name)?;
        let mut bytes = parts(&call.before.bodies[name]).0;
        if msg.place == Place::Ready {
            bytes[1] = delayq::State::Ready as u8;
            let group = msg.stored.group.as_ref().map(|group| group.as_str().as_bytes());
            if group.is_some_and(|group| self.is_paused_group(name.0, group)) {
                bytes[2] |= IS_HELD | IS_PAUSED;
            } else if self.blocks_groups(name.0) && msg.stored.blocks {
                // A failed message goes first.
            } else if group.is_some_and(|group| self.is_blocked(name.0, group)) {
                bytes[2] |= IS_HELD | IS_BLOCKED;
            } else if group.is_some_and(|group| waiting_groups(name.0, call.before).contains(&group)) {
                bytes[2] |= IS_HELD;
            }
        }
        if msg.successor.is_some() {
            bytes[2] |= IS_HELD;
        }
        if let Some(reason) = call.before.reasons.get(name) {
            bytes[3] |= HAS_REASON;
            bytes.extend_from_slice(reason.as_bytes());
            bytes.extend_from_slice(&(reason.len() as u16).to_be_bytes());
        }
        Some(bytes)
    }

    fn count(&self, topic: &str, call: &Call<'_>) -> Outcome {
        let Some(no) = self.no(topic) else {
            return same("count", call.words.as_slice(), &["".to_owned(), "0".into(), "".into()]);
        };
        let all = |word: &str| {
            self.messages.iter().filter(|(name, msg)| name.0 == no && msg.word() == word).count() as u64
        };
        let mut wanted = vec![all("delayed"), all("ready"), all("leased"), all("dead")];
        wanted.extend(BOOKS.map(|counter| self.books.get(&(counter, no)).copied().unwrap_or(0) as u64));
        let over: u64 = wanted[5..10].iter().sum();
        let pending: u64 = ["delayed", "ready", "leased", "dead"].map(all).iter().sum();
        same("books", wanted[4], over + pending)?;
        let told =
            std::iter::once(1).chain(3..13).map(|at| call.number(at)).collect::<Result<Vec<_>, _>>()?;
        same("count", told, wanted)?;
        let setting = |field| self.setting(no, field).map(lossy).unwrap_or_default();
        same("paused, rate", &call.words[13..16], &[setting("paused"), setting("rate"), "0".to_owned()])?;
        let since = self.waiting_since(no, call).map(|ms| ms.map_or(String::new(), |ms| ms.to_string()));
        same("oldest ready, oldest unhandled", &call.words[16..18], &since)?;
        let full = waiting_groups(no, call.before).len().to_string();
        let paused = self.pauses_of(no).len().to_string();
        let blocking = self.messages.iter().filter(|(name, msg)| name.0 == no && msg.stored.blocks).count();
        let wanted = [full, paused, blocking.to_string()];
        same(
            "groups with parked messages and no turn, paused groups, failed messages",
            &call.words[18..],
            &wanted,
        )?;
        let due =
            |(name, msg): (&Name, &Msg)| (name.0 == no && msg.place == Place::Delayed).then(|| msg.due());
        let first = self.messages.iter().filter_map(due).min();
        match (first, call.words[2].parse::<u64>().ok()) {
            (Some(first), Some(told)) if told <= first => Ok(()),
            (None, _) => Ok(()),
            (first, told) => Err(format!("first due {told:?}, not {first:?}")),
        }
    }

    /// The time since which the head of a ready queue is ready, or the next parked message with a turn, and the earlier of
    /// that and of the due times of leased messages.
    fn waiting_since(&self, no: u32, call: &Call<'_>) -> [Option<u64>; 2] {
        let mine = |is: fn(&Msg) -> bool| {
            self.messages.iter().filter(move |(name, msg)| name.0 == no && is(msg)).map(|(_, msg)| msg.due())
        };
        let any_ready = mine(|msg| msg.place == Place::Ready).next().is_some();
        let ready = head_ready_us(no, call.before).filter(|_| any_ready).map(|us| us / 1000);
        [ready, mine(Msg::is_leased).chain(ready).min()]
    }

    fn history(&self, topic: &str, id: &[u8], call: &Call<'_>) -> Outcome {
        let no = self.no(topic).unwrap_or(0);
        let kept = self.setting(no, "history").map_or("0".to_owned(), lossy);
        same("next, kept", &call.words[1..3], &[String::new(), kept])?;
        let all = call.before.histories.get(&no).map_or(&[][..], Vec::as_slice);
        let own: Vec<&str> = all.iter().filter(|(of, _)| of == id).map(|(_, what)| what.as_str()).collect();
        let told: Vec<&str> = call.words[4..].chunks(2).map(|event| event[1].as_str()).collect();
        same("the newest events of a history", own.ends_with(&told), true)
    }

    fn list(&self, list: &List, call: &Call<'_>) -> Outcome {
        let mut wanted = vec![self.now_us.to_string().into_bytes()];
        let page = self.no(&list.topic).map(|no| match list.state {
            "delayed" => self.page_of_delayed(no, list, call),
            "ready" => self.page_of_ready(no, list, call),
            "leased" => self.page_of_leased(no, list, call),
            _ => {
                let mut all = self.in_order(no, "dead", bounds(list), call.before);
                if list.newest_first {
                    all.reverse();
                }
                page(list, &all)
            }
        });
        let page = page.unwrap_or_default();
        wanted.extend([page.next.into_bytes(), page.last]);
        for name in page.shown {
            wanted.extend([name.1.clone(), self.shown(&name, call).unwrap_or_default()]);
        }
        same_bytes("list", call.answer, &wanted)
    }

    fn page_of_delayed(&self, no: u32, list: &List, call: &Call<'_>) -> Page {
        let mut all = self.in_order(no, "delayed", bounds(list), call.before);
        let Some(hour) = all.first().map(|(due, ..)| due / HOUR_MS) else { return Page::default() };
        all.retain(|(due, ..)| due / HOUR_MS == hour);
        let mut page = page(list, &all);
        let next_hour = (hour + 1) * HOUR_MS;
        if page.next.is_empty() && next_hour <= list.to {
            page.next = next_hour.to_string();
        }
        page
    }

    /// Stale entries are skipped, but count.
    fn page_of_ready(&self, no: u32, list: &List, call: &Call<'_>) -> Page {
        let at = QueueAt::of(no, &list.last, call.before);
        let queue = at.entries;
        let place = |text: &[u8]| std::str::from_utf8(text).ok()?.parse::<usize>().ok();
        let mut parts = at.place.splitn(3, |&byte| byte == b' ');
        let cursor = parts.next().and_then(place).zip(parts.next().and_then(place)).zip(parts.next());
        let (first, left) = match cursor {
            None => (0, queue.len()),
            Some(((stood, left), last)) => {
                let behind = queue.iter().take(stood + 1).rposition(|entry| entry == last);
                (behind.map_or(0, |at| at + 1), left)
            }
        };
        let wanted = left.min(list.limit as usize);
        let entries: Vec<_> = queue[first..].iter().take(wanted).collect();
        let shown = entries.iter().filter_map(|entry| self.ready_message(no, entry, call.before)).collect();
        let left = if entries.len() < wanted { 0 } else { left - entries.len() };
        let behind = match entries.last().filter(|_| left > 0) {
            Some(last) => {
                let behind = format!("{} {left} ", first + entries.len() - 1).into_bytes();
                at.within(&[&behind[..], last].concat())
            }
            None => match at.next(call.before) {
                Some(next) => next,
                None => return Page { shown, ..Page::default() },
            },
        };
        Page { shown, next: list.from.to_string(), last: behind }
    }

    /// A page scans the leases of all topics.
    fn page_of_leased(&self, no: u32, list: &List, call: &Call<'_>) -> Page {
        let leases = call.before.index("leases").iter();
        let mut all: Vec<(u64, Vec<u8>, Name)> = leases
            .filter(|(_, until)| (list.from..=list.to).contains(until))
            .filter_map(|(receipt, until)| {
                Some((*until, receipt.clone(), parse_name(&receipt[..receipt.len() - 4])?))
            })
            .collect();
        all.sort();
        let mut page = page(list, &all);
        page.shown.retain(|name| name.0 == no);
        page
    }

    fn list_group(&self, group: &str, behind: &Mark, limit: u64, call: &Call<'_>) -> Outcome {
        let (page, next) = self.page_of_group(group, behind, limit);
        let count = self.group(group).len();
        let mut wanted = vec![self.now_us.to_string().into_bytes(), count.to_string().into_bytes()];
        wanted.extend(next);
        for name in &page {
            let topic = self.topics[name.0 as usize - 1].clone().into_bytes();
            wanted.extend([topic, name.1.clone(), self.shown(name, call).unwrap_or_default()]);
        }
        same_bytes("list_group", call.answer, &wanted)
    }

    fn histogram(&self, topic: &str, (from, to, width): (u64, u64, u64), call: &Call<'_>) -> Outcome {
        let mut hours: BTreeMap<u64, BTreeMap<u64, u64>> = BTreeMap::new();
        for (name, msg) in &self.messages {
            let is_here = Some(name.0) == self.no(topic) && msg.place == Place::Delayed;
            if is_here && (from..to).contains(&msg.due()) {
                let intervals = hours.entry(msg.due() / HOUR_MS).or_default();
                *intervals.entry(msg.due() - msg.due() % width).or_default() += 1;
            }
        }
        let next = hours.keys().nth(23).map(|hour| (hour + 1) * HOUR_MS).filter(|next| *next < to);
        let mut wanted = vec![next.map(|next| next.to_string()).unwrap_or_default()];
        for (start, count) in hours.into_values().take(24).flatten() {
            wanted.extend([start.to_string(), count.to_string()]);
        }
        same("histogram", call.words.as_slice(), wanted.as_slice())
    }

    fn audit(&self, bodies: &[Vec<u8>], call: &Call<'_>) -> Outcome {
        let mut tally = [0_u64; 5];
        for key in bodies {
            let name = parse_name(&key[2..]).expect("a body's key has a topic number");
            let Some(msg) = self.messages.get(&name) else { continue };
            let states = ["delayed", "ready", "leased", "dead"];
            tally[states.iter().position(|word| *word == msg.word()).unwrap_or(4)] += 1;
        }
        same("audit", &call.words[..5], tally.map(|n| n.to_string()).as_slice())?;
        let found: Vec<&str> = call.words[5..].iter().step_by(2).map(String::as_str).collect();
        same("findings", found, vec!["ready"; tally[1] as usize])
    }

    fn audit_index(&self, indexes: &[Vec<u8>], call: &Call<'_>) -> Outcome {
        same("indexes to their end", call.words[0].as_str(), indexes.len().to_string().as_str())?;
        let is_poison = |fault: &[String]| fault[1] == "stale_entry" && fault[2].contains(POISON);
        let found: Vec<_> = call.words[4..].chunks(3).filter(|fault| !is_poison(fault)).collect();
        same("findings", found, Vec::<&[String]>::new())
    }

    /// Each counter is true. The pump counted stale entries of a bucket as ready.
    fn recount(&self, call: &Call<'_>) -> Outcome {
        same("count", call.words[0].as_str(), "counted")?;
        let (says, is): (Vec<_>, Vec<_>) = call.words[4..].chunks(2).map(|pair| (&pair[0], &pair[1])).unzip();
        if self.poisoned { Ok(()) } else { same("counters", says, is) }
    }

    fn overview(&self, call: &Call<'_>) -> Outcome {
        let count = |is: fn(&Msg) -> bool| self.messages.values().filter(|msg| is(msg)).count();
        let listed: usize = call.before.ends.values().map(Vec::len).sum();
        let markers = listed + self.shifts.len() + call.before.histories.len();
        let leases = count(Msg::is_leased);
        let mut wanted = vec![
            self.now_us.to_string(),
            next_due(call),
            self.epoch.to_string(),
            self.owner.clone().unwrap_or_default().0,
            if self.held { "1".into() } else { String::new() },
            leases.to_string(),
            markers.to_string(),
        ];
        wanted.extend([self.topics.len().to_string(), String::new(), String::new()]);
        same("overview", &call.words[..10], wanted.as_slice())?;
        let mut topics: Vec<_> =
            call.words[10..].chunks(2).map(|topic| (topic[0].clone(), topic[1].as_str())).collect();
        topics.sort();
        let here = (1..).zip(&self.topics).filter(|(_, name)| !name.is_empty());
        let has_turns = |no: u32| !call.before.index(&format!("n:{no}")).is_empty();
        let waits = |no: u32| if call.before.ready.contains_key(&no) || has_turns(no) { "1" } else { "" };
        let mut wanted: Vec<_> = here.map(|(no, name)| (name.clone(), waits(no))).collect();
        wanted.sort();
        same("topics", topics, wanted)
    }

    fn survey(&self, spans: &[u64], call: &Call<'_>) -> Outcome {
        let count = |is: &dyn Fn(&Msg) -> bool| self.messages.values().filter(|msg| is(msg)).count() as u64;
        let held = (1..=self.topics.len() as u32).map(|no| self.held(no, call)).sum();
        let mut wanted = vec![0, count(&|msg| msg.place == Place::Ready), held, count(&Msg::is_leased)];
        let now = self.now_us / 1000;
        let topics = (1..).zip(&self.topics).filter(|(_, name)| !name.is_empty());
        let heads = topics.filter(|&(no, _)| self.waiting_since(no, call)[0].is_some());
        let oldest = heads.filter_map(|(no, _)| head_ready_us(no, call.before)).min();
        let age = oldest.map_or(String::new(), |us| (self.now_us.saturating_sub(us) / 1000).to_string());
        same("age of the oldest", &call.words[4], &age)?;
        wanted.extend(
            spans.iter().map(|span| count(&|msg| msg.place == Place::Delayed && msg.due() <= now + span)),
        );
        let told = (0..=wanted.len()).filter(|at| *at != 4).map(|at| call.number(at));
        same("survey", told.collect::<Result<Vec<_>, _>>()?, wanted)
    }

    /// All ready messages of a paused topic; else those that are neither in the ready queue nor in reach of a turn, if
    /// messages are parked.
    fn held(&self, no: u32, call: &Call<'_>) -> u64 {
        let ready = self.messages.iter().filter(|(name, msg)| name.0 == no && msg.place == Place::Ready);
        if self.setting(no, "paused").is_some() {
            return ready.count() as u64;
        }
        if call.before.index(&format!("k:{no}")).is_empty() {
            return 0;
        }
        let most = self.setting(no, "group_in_flight").map_or(0, |most| lossy(most).parse().unwrap());
        let most = if most == 0 { usize::MAX } else { most };
        let parked = |group: &Vec<u8>| call.before.parked.get(&(no, lossy(group))).map_or(0, Vec::len);
        let tokens = call.before.index(&format!("y:{no}")).iter().filter(|(_, at)| **at <= self.now_us);
        let turns = call.before.index(&format!("n:{no}")).keys().chain(tokens.map(|(group, _)| group));
        let turns = turns.map(|group| parked(group).min(most));
        let free = call.before.ready.get(&no).map_or(0, Vec::len) + turns.sum::<usize>();
        ready.count().saturating_sub(free) as u64
    }

    fn describe(&self, topic: &str, call: &Call<'_>) -> Outcome {
        let (_, fields) = call.answer.split_first().ok_or("no number of fields")?;
        same("fields", call.number(0)?, fields.len() as u64 / 2)?;
        self.policy_of(topic, fields)
    }

    /// Fields may come in any order.
    pub(super) fn policy_of(&self, topic: &str, fields: &[Vec<u8>]) -> Outcome {
        let mut wanted = BTreeMap::new();
        if let Some(no) = self.no(topic) {
            let settings = self.settings.iter().filter(|((own, _), _)| *own == no);
            wanted = settings.map(|((_, field), value)| (field.clone(), value.clone())).collect();
            wanted.insert("name".to_owned(), topic.as_bytes().to_vec());
            if let Some(empty) = self.rates.get(&no) {
                wanted.insert("tat".to_owned(), empty.to_string().into_bytes());
            }
            wanted.extend(self.notes(no));
        }
        same("policy", pairs(fields), wanted)
    }
}

fn ready_us(entry: &[u8]) -> u64 {
    entry[entry.len() - 7..].iter().fold(0, |us, &byte| us << 8 | u64::from(byte))
}

fn head_ready_us(no: u32, shard: &Snapshot) -> Option<u64> {
    let next = turns(no, shard).into_iter().next();
    let list = next.and_then(|group| shard.parked.get(&(no, lossy(&group))));
    let heads = [shard.ready.get(&no), list].into_iter().flatten().filter_map(|queue| queue.first());
    heads.map(|head| ready_us(head)).min()
}

/// Groups with parked messages and without a turn.
fn waiting_groups(no: u32, shard: &Snapshot) -> BTreeSet<&[u8]> {
    let turns = shard.index(&format!("n:{no}"));
    let groups = shard.index(&format!("k:{no}")).keys().filter(|group| !turns.contains_key(*group));
    groups.map(Vec::as_slice).collect()
}

fn bounds(list: &List) -> (u64, u64) {
    if list.newest_first && list.state == "dead" { (list.to, list.from) } else { (list.from, list.to) }
}

/// A page of the ordered entries in range: `limit` entries after the last one shown.
fn page(list: &List, all: &[(u64, Vec<u8>, Name)]) -> Page {
    let downwards = list.newest_first && list.state == "dead";
    let is_behind = |(time, member, _): &&(u64, Vec<u8>, Name)| {
        let order = (*time, member).cmp(&(list.from, &list.last));
        list.last.is_empty() || if downwards { order.is_lt() } else { order.is_gt() }
    };
    let entries: Vec<_> = all.iter().filter(is_behind).take(list.limit as usize).collect();
    let shown = entries.iter().map(|(.., name)| name.clone()).collect();
    let last = entries.last().filter(|_| entries.len() as u64 == list.limit);
    let Some((time, member, _)) = last else { return Page { shown, ..Page::default() } };
    Page { shown, next: time.to_string(), last: member.clone() }
}
