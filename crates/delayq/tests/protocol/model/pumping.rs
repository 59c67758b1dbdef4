//! Pumping: due messages become ready, expired leases return, ids are forgotten.

use super::{Call, Model, Msg, Outcome, Place, same};
use crate::snapshot::Name;
use delayq::UnixMillis;

#[derive(Default)]
struct Moves {
    ready: u64,
    /// Expired without ever having been ready; the pump may have moved such messages on the way.
    expired_delayed: u64,
    returned: u64,
    buried: u64,
    expired: u64,
    forgotten: u64,
    shifts: u64,
    poison: u64,
}

// === impl Model ===

impl Model {
    /// The script chooses the step, but only among allowed moves, and must leave nothing out.
    pub(super) fn pump(&mut self, epoch: Option<u64>, limit: u64, call: &Call<'_>) -> Outcome {
        let idle = |word: &str| {
            same("pump", call.words[0].as_str(), word)?;
            same("moved while idle", call.words[3..9].iter().all(|n| n == "0"), true)
        };
        if self.held {
            return idle("held");
        }
        match epoch {
            None if call.words[0] == "not overdue" => {
                let now = self.now();
                let overdue = self.times().any(|(_, time)| time + 10_000 < now);
                return same("something is long overdue", overdue, false);
            }
            Some(epoch) if epoch < self.epoch => return idle(&format!("fenced {}", self.epoch)),
            Some(epoch) => self.epoch = epoch,
            None => {}
        }
        let mut moves = Moves::default();
        for name in self.messages.keys().cloned().collect::<Vec<_>>() {
            self.pump_one(&name, call, &mut moves)?;
        }
        self.check_leases(call)?;
        self.check_order(call)?;
        self.pump_shifts(call, &mut moves);
        let in_buckets = |poison: &[String]| poison.iter().filter(|key| key.starts_with("b:")).count() as u64;
        moves.poison = in_buckets(&call.before.poison) - in_buckets(&call.after.poison);
        self.check_report(&moves, limit, call)
    }

    fn pump_one(&mut self, name: &Name, call: &Call<'_>, moves: &mut Moves) -> Outcome {
        let (now, msg) = (self.now(), &self.messages[name]);
        let stored = call.after.envelope(name);
        match msg.place {
            Place::Delayed | Place::Ready if stored.as_ref().is_none_or(|stored| stored.state.is_over()) => {
                same("expiry of what went", msg.is_expired(now), true)?;
                moves.expired += 1;
                moves.expired_delayed += u64::from(msg.place == Place::Delayed);
                self.finish(name, "expired");
            }
            Place::Delayed if msg.due() <= now => {
                let generation = stored.expect("it is not over").generation;
                if !call.after.in_bucket(name.0, &[&name.1[..], &generation.to_be_bytes()].concat()) {
                    moves.ready += 1;
                    self.messages.get_mut(name).unwrap().place = Place::Ready;
                }
            }
            Place::Leased { until, ref receipt } if until > self.latest_lease_end() => {
                // Granted while the clock was ahead. A pump with nothing else to do shortens the lease.
                let end = self.latest_lease_end();
                if stored.is_some_and(|stored| stored.at.get() == end) {
                    let (receipt, msg) = (receipt.clone(), self.messages.get_mut(name).unwrap());
                    msg.place = Place::Leased { receipt, until: end };
                    msg.stored.at = UnixMillis::new(end);
                }
            }
            Place::Leased { until, .. } if until <= now => {
                if stored.as_ref().is_some_and(|stored| stored.state.word() == "leased") {
                    return Ok(());
                }
                moves.returned += 1;
                let due = stored.map(|stored| stored.due.get());
                match self.give_back(name, None, "its lease ran out at the last attempt", due)? {
                    "buried" => moves.buried += 1,
                    "expired" => moves.expired += 1,
                    _ => {}
                }
            }
            Place::Over { forget, .. } if forget <= now && stored.is_none() => {
                moves.forgotten += 1;
                self.messages.remove(name);
            }
            _ => {}
        }
        Ok(())
    }

    /// With nothing due, a pump leaves no lease that ends later than a lease granted now.
    fn check_leases(&self, call: &Call<'_>) -> Outcome {
        let (now, end) = (self.now(), self.latest_lease_end());
        let alarms = call.before.index("alarms");
        let is_idle = alarms.values().all(|&alarm| alarm > now);
        let is_seen = alarms.get(b"leases".as_slice()).is_some_and(|&alarm| alarm > end);
        let late = call.after.index("leases").values().filter(|&&until| until > end).count();
        same("leases that last too long", late > 0 && is_idle && is_seen, false)
    }

    /// Each topic's oldest messages become ready first, whatever the limit.
    fn check_order(&self, call: &Call<'_>) -> Outcome {
        let now = self.now();
        for no in 1..=self.topics.len() as u32 {
            let due = |place: &Place| {
                let is_due =
                    |(name, msg): &(&Name, &Msg)| name.0 == no && msg.place == *place && msg.due() <= now;
                self.messages.iter().filter(is_due).map(|(name, msg)| (msg.due(), name)).collect::<Vec<_>>()
            };
            let first_left = due(&Place::Delayed).into_iter().map(|(due, _)| due).min();
            let was_left = |name: &Name| {
                let member = [&name.1[..], &call.before.bodies[name][4..8]].concat();
                call.before.in_bucket(no, &member)
            };
            let last_moved =
                due(&Place::Ready).into_iter().filter(|(_, name)| was_left(name)).map(|(due, _)| due).max();
            let in_order = first_left.zip(last_moved).is_none_or(|(left, moved)| moved <= left);
            same("the oldest first", in_order, true)?;
        }
        Ok(())
    }

    fn pump_shifts(&mut self, call: &Call<'_>, moves: &mut Moves) {
        let (now, before) = (self.now(), self.shifts.len());
        let is_there = |group: &String| call.after.hashes.contains_key(&format!("shift:{group}"));
        self.shifts.retain(|group, shift| shift.forget > now || is_there(group));
        moves.shifts = (before - self.shifts.len()) as u64;
    }

    fn check_report(&mut self, moves: &Moves, limit: u64, call: &Call<'_>) -> Outcome {
        let now = self.now();
        let told = (3..9).map(|at| call.number(at)).collect::<Result<Vec<_>, _>>()?;
        let least = moves.ready + moves.poison;
        if told[0] < least || told[0] > least + moves.expired_delayed {
            return Err(format!("moved {} of {least} to {}", told[0], least + moves.expired_delayed));
        }
        let seen = [moves.returned, moves.buried, moves.expired, moves.forgotten];
        same("returned, buried, expired, forgotten", &told[1..5], &seen)?;
        same("blocked", told[5], 0)?;
        let runs = call.words[9..].chunks(2).map(|run| run[1].parse::<u64>().unwrap());
        same("messages of the runs", runs.sum(), told[0])?;
        if told[0] + moves.returned + moves.forgotten + moves.shifts > limit {
            return Err(format!("{told:?} at a limit of {limit}"));
        }
        match call.words[0].as_str() {
            "more" => Ok(()),
            "pumped" => match self.times().find(|(_, time)| *time <= now) {
                Some((what, time)) => Err(format!("{what} of {time} is left at {now}")),
                None => Ok(()),
            },
            other => Err(format!("pump: {other}")),
        }
    }

    /// Every time that the pump must wake for.
    fn times(&self) -> impl Iterator<Item = (String, u64)> {
        let shifts = self.shifts.iter().map(|(group, shift)| (format!("shift of {group}"), shift.forget));
        let of = |(name, msg): (&Name, &Msg)| {
            let expires = msg.expires().filter(|_| msg.is_pending());
            let own = match msg.place {
                Place::Delayed => Some(msg.due()),
                Place::Leased { until, .. } => Some(until),
                Place::Over { forget, .. } => Some(forget),
                Place::Ready | Place::Dead => None,
            };
            let word = format!("{} {name:?}", msg.word());
            [own, expires].into_iter().flatten().map(move |time| (word.clone(), time)).collect::<Vec<_>>()
        };
        self.messages.iter().flat_map(of).chain(shifts).collect::<Vec<_>>().into_iter()
    }
}
