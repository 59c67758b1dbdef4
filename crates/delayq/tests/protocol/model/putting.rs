//! Puts, and the place and the end of a message.

use super::{Call, Model, Msg, Outcome, Place, index_name, ms, same};
use crate::action::{Item, is_generated};
use crate::snapshot::Name;
use delayq::UnixMillis;
use delayq::protocol::{Again, DueRule, Envelope};

// === impl Model ===

impl Model {
    pub(super) fn put_all(&mut self, topic: &str, items: &[Item], call: &Call<'_>) -> Outcome {
        // A topic gets its number with its first stored message.
        let no = self.no(topic).unwrap_or(self.topics.len() as u32 + 1);
        same("now", &call.words[0], &self.now_us.to_string())?;
        let wanted: Vec<String> = items.iter().map(|item| self.put(no, item)).collect();
        if wanted.iter().any(|word| word == "stored" || word == "ready") {
            self.open(topic);
        }
        same("put", &call.words[1..], &wanted)
    }

    fn put(&mut self, no: u32, item: &Item) -> String {
        let (mut due, name) = (self.due_of(&item.due), (no, item.id.clone()));
        let mut stored = item.envelope();
        let pending = self.messages.get(&name).filter(|old| old.is_pending() && item.replace).cloned();
        let pending = pending.filter(|_| !item.again.is_plain());
        if item.replace && !item.again.is_plain() {
            stored.first = self.first_put(item.again, pending.as_ref());
        }
        if item.replace
            && item.again.expects()
            && let Some(answer) = self.unexpected(no, item, &stored, due)
        {
            return answer;
        }
        let own = due;
        if item.replace
            && let Some(answer) = self.throttled(&name, item, &stored, &mut due)
        {
            return answer;
        }
        let behind = (due > own).then(|| self.messages[&name].clone());
        if let Some(old) = &pending {
            due = merged_due(item.again.due, due, old, stored.first);
            if item.again.keep && due == old.due() && stored.first == old.stored.first {
                return format!("again {} {due} {due}", old.word());
            }
            if item.again.keep {
                stored = kept(old, stored.first);
            }
        }
        let lifetime = stored.lifetime.map(|lifetime| lifetime.as_millis() as u64);
        let after = lifetime.unwrap_or_else(|| self.policy(no, "expire_after_ms"));
        stored.relative = after > 0 && stored.expires.is_none() && due + after < 1 << 53;
        if stored.relative {
            stored.expires = Some(ms(due + after));
        }
        if stored.expires.is_some_and(|expires| expires <= ms(due)) {
            return "refused expiry not after the due time".into();
        }
        if let Some(receipt) = &item.ack
            && let Some(answer) = self.followed(&name, receipt, &stored)
        {
            return answer;
        }
        match self.messages.get(&name) {
            None if self.is_stale(no, item) => return "stale".into(),
            None => {}
            Some(old) if item.replace && was_put_by(item, &stored, old) => return known(&stored, old),
            Some(old) if item.replace && old.is_leased() => {
                return if is_throttle(item) {
                    self.succeed_later(&name, item, stored, due)
                } else {
                    "leased".into()
                };
            }
            Some(old) if item.replace && old.is_over() => {}
            Some(_) if item.replace => self.book("replaced", no),
            Some(old) => return known(&stored, old),
        }
        self.book("accepted", no);
        (stored.due, stored.at) = (ms(due), ms(self.now()));
        if stored.max_attempts == 0 {
            stored.max_attempts = self.policy(no, "max_attempts") as u16;
        }
        if let Some(old) = &pending {
            stored.blocks = old.stored.blocks && due == old.due() && stored.group == old.stored.group;
        }
        let place = self.place_for(due);
        let is_ready = place == Place::Ready;
        self.messages.insert(name, Msg::new(place, stored));
        if let Some(old) = pending {
            return format!("again {} {} {due}", if is_ready { "ready" } else { "delayed" }, old.due());
        }
        if let Some(old) = behind {
            return format!("again {} {} {due}", old.word(), old.due());
        }
        if is_ready { "ready" } else { "stored" }.into()
    }

    /// Returns the answer to the put of a next message, or ends the leased message and leaves the put to the caller.
    fn followed(&mut self, name: &Name, receipt: &[u8], stored: &Envelope) -> Option<String> {
        let led = self.leased_by(receipt);
        if let Some(led) = led.as_ref().filter(|led| self.messages[led].stored.doomed || *led == name) {
            let is_doomed = self.messages[led].stored.doomed;
            if is_doomed {
                self.end_leased(led, "delivered");
            } else {
                self.book("delivered", led.0);
                self.messages.remove(led);
            }
            return is_doomed.then(|| "cancelled".into());
        }
        let old = self.messages.get(name);
        let word = old.map(|old| known(stored, old));
        let exists = word.as_ref().is_some_and(|word| word.starts_with("exists"));
        let was_delivered = index_name(name) == receipt[..receipt.len() - 4]
            && old.is_some_and(|old| old.stored.delivery > 0);
        match led {
            Some(led) => {
                if exists || word.is_none() {
                    self.end_leased(&led, "delivered");
                }
                word
            }
            None if exists && !was_delivered => word,
            None => Some("expired".into()),
        }
    }

    /// Stores a put as the successor of a leased message.
    fn succeed_later(&mut self, name: &Name, item: &Item, mut stored: Envelope, due: u64) -> String {
        (stored.due, stored.at) = (ms(due), ms(self.now()));
        if stored.max_attempts == 0 {
            stored.max_attempts = self.policy(name.0, "max_attempts") as u16;
        }
        let leased = self.messages.get_mut(name).unwrap();
        let due = match &leased.successor {
            Some(successor) if item.again.keep => successor.due.get(),
            _ => leased.successor.insert(stored).due.get(),
        };
        format!("again leased {} {due}", leased.due())
    }

    /// The answer, unless the message is as expected.
    fn unexpected(&self, no: u32, item: &Item, stored: &Envelope, due: u64) -> Option<String> {
        let is_due = |old: &Msg| item.again.expected.is_none_or(|expected| expected == old.stored.due);
        let Some(old) = self.messages.get(&(no, item.id.clone())) else { return Some("unknown".into()) };
        if old.is_leased() {
            return (!was_put_by(item, stored, old)).then(|| "leased".into());
        }
        if !old.is_pending() {
            let changed = || format!("changed {} {}", old.word(), old.stored.at);
            let is_there = item.again.generation.is_some() && is_due(old);
            return (!is_there && !was_put_by(item, stored, old)).then(changed);
        }
        let is_content = item.again.content.is_none_or(|content| old.stored.hash == Some(content));
        if is_due(old) && is_content {
            return None;
        }
        let due = merged_due(item.again.due, due, old, old.stored.first.or(Some(old.stored.at)));
        let is_done = due == old.due() && !item.again.keep && stored.hash.is_some() && is_alike(stored, old);
        Some(if is_done {
            format!("again {} {due} {due}", old.word())
        } else {
            format!("changed {} {}", old.word(), old.due())
        })
    }

    /// The answer to a put that is swallowed, or may not be throttled; otherwise `due` is outside the window.
    fn throttled(&self, name: &Name, item: &Item, stored: &Envelope, due: &mut u64) -> Option<String> {
        let (word, window) = match item.again.due {
            DueRule::Throttle(window) => ("throttle", window.as_millis() as u64),
            DueRule::Swallow(window) => ("swallow", window.as_millis() as u64),
            _ => return None,
        };
        if is_generated(&name.1) {
            return Some(format!("refused {word} with a generated id"));
        }
        let kept = self.policy(name.0, "remember_own_ms");
        if window > kept {
            return Some(format!(
                "refused {word} of {window} ms: the topic remembers own ids for {kept} ms (remember_own_ms)"
            ));
        }
        let old = self.messages.get(name)?;
        let is_delivered = old.word() == "delivered";
        let end = old.due().min(self.now()) + window;
        let is_open = old.is_pending() || old.is_leased();
        if word == "swallow" {
            let time = if is_open { old.stored.due } else { old.stored.at };
            let is_recent = is_open || is_delivered && end > self.now();
            return is_recent.then(|| format!("exists {} {time}", old.word()));
        }
        if (is_delivered || old.is_leased() || old.place == Place::Dead) && !was_put_by(item, stored, old) {
            *due = end.max(*due);
        }
        None
    }

    /// When a message was first put, as far as a debounce asks for it.
    fn first_put(&self, again: Again, pending: Option<&Msg>) -> Option<UnixMillis> {
        let debounces = matches!(again.due, DueRule::Within(_));
        match pending {
            Some(old) => old.stored.first.or(debounces.then_some(old.stored.at)),
            None => debounces.then(|| ms(self.now())),
        }
    }

    /// A topic refuses the repeat of a put whose end may already be forgotten.
    fn is_stale(&self, no: u32, item: &Item) -> bool {
        let other = if is_generated(&item.id) { "remember_generated_ms" } else { "remember_own_ms" };
        let remember = self.policy(no, "remember_cancelled_ms").min(self.policy(no, other));
        let refuses = self.setting(no, "repeats") == Some(b"refuse".as_slice());
        item.tried.is_some_and(|tried| refuses && tried + remember <= self.now())
    }

    pub(super) fn due_of(&self, text: &str) -> u64 {
        text.strip_prefix('+')
            .map_or_else(|| text.parse().unwrap(), |ms| self.now() + ms.parse::<u64>().unwrap())
    }

    pub(super) fn place_for(&self, due: u64) -> Place {
        if due <= self.now() && !self.held { Place::Ready } else { Place::Delayed }
    }

    pub(super) fn put_to(&mut self, name: &Name, due: u64) {
        let (place, now) = (self.place_for(due), self.now());
        let msg = self.messages.get_mut(name).unwrap();
        (msg.place, msg.stored.due, msg.stored.at) = (place, ms(due), ms(now));
    }

    pub(super) fn finish(&mut self, name: &Name, outcome: &'static str) {
        self.book(outcome, name.0);
        let remember = match outcome {
            "cancelled" => self.policy(name.0, "remember_cancelled_ms"),
            _ if is_generated(&name.1) => self.policy(name.0, "remember_generated_ms"),
            _ => self.policy(name.0, "remember_own_ms"),
        };
        let now = self.now();
        if remember == 0 {
            self.messages.remove(name);
            return;
        }
        let msg = self.messages.get_mut(name).unwrap();
        // Markers whose times end within the same eighth share a list.
        let forget = (now + remember).next_multiple_of(remember.div_ceil(8));
        msg.place = Place::Over { word: outcome, forget };
        let old = &msg.stored;
        let mut marker = Item::new(b"x", 0).envelope();
        (marker.hash, marker.due, marker.at) = (old.hash, old.due, ms(now));
        (marker.delivery, marker.attempt, marker.max_attempts) =
            (old.delivery, old.attempt, old.max_attempts);
        (msg.stored, msg.successor) = (marker, None);
    }
}

/// The answer to a put that meets this message.
fn known(stored: &Envelope, old: &Msg) -> String {
    let time = if old.is_pending() || old.is_leased() { old.stored.due } else { old.stored.at };
    format!("{} {} {time}", if is_alike(stored, old) { "exists" } else { "conflict" }, old.word())
}

fn merged_due(rule: DueRule, due: u64, old: &Msg, first: Option<UnixMillis>) -> u64 {
    match rule {
        DueRule::New => due,
        DueRule::Later => due.max(old.due()),
        DueRule::Sooner => due.min(old.due()),
        DueRule::Content | DueRule::Throttle(_) | DueRule::Swallow(_) => old.due(),
        DueRule::Within(longest) => due.min(first.unwrap().get() + longest.as_millis() as u64),
    }
}

/// The envelope after a put again that keeps the content: attempts are counted from scratch.
fn kept(old: &Msg, first: Option<UnixMillis>) -> Envelope {
    let mut stored = Envelope { first, delivery: 0, attempt: 0, blocks: false, ..old.stored.clone() };
    if stored.relative {
        (stored.relative, stored.expires) = (false, None);
    }
    stored
}

fn is_alike(stored: &Envelope, old: &Msg) -> bool {
    stored.hash.is_none() || stored.hash == old.stored.hash
}

fn is_throttle(item: &Item) -> bool {
    matches!(item.again.due, DueRule::Throttle(_))
}

/// True if the first try of this repeat put the finished or dead message, or the leased one of a throttle.
fn was_put_by(item: &Item, stored: &Envelope, old: &Msg) -> bool {
    let Some(tried) = item.tried.filter(|_| is_alike(stored, old) && !old.is_pending()) else { return false };
    let is_since = !old.is_leased() && old.stored.at > ms(tried);
    if !is_throttle(item) {
        return is_since;
    }
    let is_unsent = ["cancelled", "expired", "purged"].contains(&old.word());
    (is_since || old.is_leased()) && (is_unsent || old.due() >= tried)
}
