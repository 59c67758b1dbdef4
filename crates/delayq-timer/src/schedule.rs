//! Which shards to pump now, and when to look again: the timer's decisions, without a clock or a connection.
//!
//! Calls go out in two lanes, so that one flood delays nobody else. What is due goes by the *light* lane: every due
//! shard in one pipeline, with few ids each. A shard that had more than that goes by the *heavy* lane, alone and with
//! a full batch, in turns with the other heavy ones. Redis runs one pipeline's scripts without a pause between, so the
//! lanes' sizes bound what any other client waits.

mod words;

pub(crate) use words::{Answer, Lane, Next, Round};

use delayq_core::{ShardId, UnixMillis};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Shards in one light pipeline: some 15 µs of Redis's time each while nothing is due.
const LIGHT_SHARDS: usize = 64;
/// Ids in one light pipeline, over all its shards: some 0.1 ms of Redis's time, beside the calls themselves.
const LIGHT_IDS: u16 = 128;
/// Light pipelines under way at once: one at work, one on its way, so that no due time waits for an answer about others.
const LIGHT_PIPELINES: usize = 2;
/// Heavy calls under way at once: Redis runs all that has arrived of one client before it hears another, so that a second
/// one would double what everybody else waits. While this one is on its way, another timer's is at work.
const HEAVY_CALLS: usize = 1;
/// How long to rest before trying a shard again that failed; doubled each time.
const FIRST_RETRY: Duration = Duration::from_millis(20);
const LONGEST_RETRY: Duration = Duration::from_secs(1);
/// How long to rest where an answer says that what is due stayed where it was.
const STUCK_RETRY: Duration = Duration::from_millis(5);

/// What is known of the shards that are owned, and what is under way.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    shards: BTreeMap<ShardId, Shard>,
    batch: u16,
    resolution: Duration,
    light_out: usize,
    heavy_out: usize,
    light_sent: Option<Instant>,
    turn: u64,
}

#[derive(Clone, Debug)]
struct Shard {
    epoch: u64,
    /// The earliest time something is due; lowered by wakes, replaced by answers.
    next_due: Option<UnixMillis>,
    /// The earliest wake heard while a call was out: the call's answer may be older than it.
    heard: Option<UnixMillis>,
    lane: Option<Lane>,
    /// Whether to look, whatever is due.
    look: bool,
    /// Whether the last call was sent for a due time, and not only to look.
    sent_for_due: bool,
    more: bool,
    resting: Option<Instant>,
    failures: u32,
    /// Held, or its ownership in doubt: not pumped until it is owned anew or let go.
    stopped: bool,
    turn: u64,
}

// === impl Schedule ===

impl Schedule {
    /// No shards. `batch` is the most ids of one call, wake-ups closer than `resolution` are merged.
    pub(crate) fn new(batch: u16, resolution: Duration) -> Self {
        Self {
            shards: BTreeMap::new(),
            batch,
            resolution,
            light_out: 0,
            heavy_out: 0,
            light_sent: None,
            turn: 0,
        }
    }

    /// A shard is owned under this epoch, for the first time or anew.
    pub(crate) fn own(&mut self, shard: ShardId, epoch: u64, next_due: Option<UnixMillis>) {
        let known = self.shards.get(&shard);
        let (lane, heard) = known.map_or((None, None), |known| (known.lane, known.heard));
        let next_due = earlier(next_due, heard);
        let turn = self.turn;
        let owned = Shard {
            epoch,
            next_due,
            heard,
            lane,
            look: false,
            sent_for_due: false,
            more: false,
            resting: None,
            failures: 0,
            stopped: false,
            turn,
        };
        self.shards.insert(shard, owned);
    }

    /// Lets a shard go: nothing is sent for it any more. Whether a call is still out for it.
    pub(crate) fn drop(&mut self, shard: ShardId) -> bool {
        self.shards.remove(&shard).is_some_and(|shard| shard.lane.is_some())
    }

    /// Stops a shard until it is owned anew, or goes on with it.
    pub(crate) fn stop(&mut self, shard: ShardId, stopped: bool) {
        if let Some(shard) = self.shards.get_mut(&shard) {
            shard.stopped = stopped;
            shard.look |= !stopped;
        }
    }

    /// A wake: something is due at `due`.
    pub(crate) fn hear(&mut self, shard: ShardId, due: UnixMillis) {
        let Some(shard) = self.shards.get_mut(&shard) else { return };
        shard.next_due = earlier(shard.next_due, Some(due));
        if shard.lane.is_some() {
            shard.heard = earlier(shard.heard, Some(due));
        }
    }

    /// A look found this to be the next due time, while no wake was lost.
    pub(crate) fn saw(&mut self, shard: ShardId, next_due: Option<UnixMillis>) {
        let Some(shard) = self.shards.get_mut(&shard) else { return };
        // What a look read may be older than a wake that was heard since: the earlier one costs an empty call at most.
        shard.next_due = earlier(shard.next_due, next_due);
    }

    /// Looks at every shard, whatever is due.
    pub(crate) fn look_at_all(&mut self) {
        self.shards.values_mut().for_each(|shard| shard.look = true);
    }

    /// The pipelines to send now, given which due times a call sent now finds.
    pub(crate) fn rounds(&mut self, now: Instant, finds: impl Fn(UnixMillis) -> bool) -> Vec<Round> {
        let mut rounds = Vec::new();
        while self.heavy_out < HEAVY_CALLS
            && let Some(shard) = self.next_heavy(now)
        {
            rounds.push(self.send(Lane::Heavy, &[(shard, true)], self.batch, now));
        }
        if self.light_out < LIGHT_PIPELINES && self.light_from().is_none_or(|from| now >= from) {
            let due = self.light(now, &finds);
            if !due.is_empty() {
                let share = usize::from(LIGHT_IDS) / due.len();
                let limit =
                    u16::try_from(share).unwrap_or(LIGHT_IDS).clamp(8, self.batch.max(8)).min(self.batch);
                rounds.push(self.send(Lane::Light, &due, limit, now));
            }
        }
        rounds
    }

    /// When to ask for rounds again, if nothing is heard or answered before.
    pub(crate) fn next(&self, now: Instant) -> Next {
        let mut next = Next { due: None, not_before: self.light_from(), anyway: None };
        if self.light_out >= LIGHT_PIPELINES {
            return next;
        }
        for shard in
            self.shards.values().filter(|shard| shard.lane.is_none() && !shard.stopped && !shard.more)
        {
            match shard.resting {
                Some(until) if until > now => {
                    next.anyway = [next.anyway, Some(until)].into_iter().flatten().min();
                }
                _ if shard.look => {
                    let soon = next.not_before.map_or(now, |from| from.max(now));
                    next.anyway = Some(next.anyway.map_or(soon, |anyway| anyway.min(soon)));
                }
                _ => next.due = earlier(next.due, shard.next_due),
            }
        }
        next
    }

    /// An answer came for a shard.
    pub(crate) fn answered(&mut self, shard: ShardId, answer: Answer, now: Instant) {
        if answer.early {
            // What is left of its time is shorter than any merging is worth.
            self.light_sent = None;
        }
        let Some(shard) = self.shards.get_mut(&shard) else { return };
        shard.lane = None;
        shard.failures = 0;
        shard.more = answer.more;
        shard.next_due = earlier(answer.next_due, shard.heard.take());
        // A due time that is over and still there would be asked for again and again.
        let stuck = !answer.more && answer.next_due.is_some_and(|due| due <= answer.now);
        shard.resting = stuck.then(|| now + STUCK_RETRY);
    }

    /// A call for a shard failed: it rests.
    pub(crate) fn failed(&mut self, shard: ShardId, now: Instant) {
        let Some(shard) = self.shards.get_mut(&shard) else { return };
        shard.lane = None;
        shard.heard = None;
        shard.more = false;
        shard.look = true;
        let rest = FIRST_RETRY * 2_u32.saturating_pow(shard.failures.min(16));
        shard.resting = Some(now + rest.min(LONGEST_RETRY));
        shard.failures += 1;
    }

    /// A pipeline is through; each of its shards was answered, failed, or let go meanwhile.
    pub(crate) fn returned(&mut self, lane: Lane) {
        match lane {
            Lane::Light => self.light_out = self.light_out.saturating_sub(1),
            Lane::Heavy => self.heavy_out = self.heavy_out.saturating_sub(1),
        }
    }

    /// Whether the last call for a shard was sent for a due time, and not only to look.
    pub(crate) fn was_due(&self, shard: ShardId) -> bool {
        self.shards.get(&shard).is_some_and(|shard| shard.sent_for_due)
    }

    /// The epoch of a shard that is owned.
    pub(crate) fn epoch(&self, shard: ShardId) -> Option<u64> {
        self.shards.get(&shard).map(|shard| shard.epoch)
    }

    /// Every shard that is owned, with its epoch.
    pub(crate) fn owned(&self) -> impl Iterator<Item = (ShardId, u64)> {
        self.shards.iter().map(|(&shard, known)| (shard, known.epoch))
    }

    /// The earliest due time of all, also of those that cannot be pumped now.
    pub(crate) fn earliest(&self) -> Option<UnixMillis> {
        self.shards.values().filter_map(|shard| shard.next_due).min()
    }

    fn light_from(&self) -> Option<Instant> {
        self.light_sent.map(|sent| sent + self.resolution)
    }

    /// The shards of a light pipeline, and whether something is due in them.
    fn light(&self, now: Instant, finds: impl Fn(UnixMillis) -> bool) -> Vec<(ShardId, bool)> {
        let mut wanted = Vec::new();
        for (&id, shard) in &self.shards {
            let due = shard.next_due.is_some_and(&finds);
            if (due || shard.look) && !shard.more && shard.is_free(now) {
                wanted.push((shard.turn, id, due));
            }
        }
        if wanted.len() > LIGHT_SHARDS {
            wanted.sort_unstable();
            wanted.truncate(LIGHT_SHARDS);
        }
        wanted.into_iter().map(|(_, id, due)| (id, due)).collect()
    }

    fn next_heavy(&self, now: Instant) -> Option<ShardId> {
        let heavy = self.shards.iter().filter(|(_, shard)| shard.more && shard.is_free(now));
        heavy.min_by_key(|(_, shard)| shard.turn).map(|(&id, _)| id)
    }

    fn send(&mut self, lane: Lane, shards: &[(ShardId, bool)], limit: u16, now: Instant) -> Round {
        match lane {
            Lane::Light => (self.light_out, self.light_sent) = (self.light_out + 1, Some(now)),
            Lane::Heavy => self.heavy_out += 1,
        }
        self.turn += 1;
        let mut round = Round { lane, shards: Vec::with_capacity(shards.len()), limit };
        for &(id, due) in shards {
            let shard = self.shards.get_mut(&id).expect("only shards that are owned are chosen");
            (shard.lane, shard.look, shard.resting, shard.turn) = (Some(lane), false, None, self.turn);
            shard.sent_for_due = due;
            round.shards.push((id, Some(shard.epoch)));
        }
        round
    }
}

// === impl Shard ===

impl Shard {
    fn is_free(&self, now: Instant) -> bool {
        self.lane.is_none() && !self.stopped && self.resting.is_none_or(|until| now >= until)
    }
}

fn earlier(one: Option<UnixMillis>, other: Option<UnixMillis>) -> Option<UnixMillis> {
    [one, other].into_iter().flatten().min()
}

#[cfg(test)]
mod tests;
