//! Compares every key and every entry of a shard with the model.

use crate::model::limiting::{NO_GROUP, is_among};
use crate::model::{Model, Msg, Outcome, Place, index_name};
use crate::snapshot::{Name, Snapshot, lossy, parse_name};
use delayq::{State, UnixMillis};
use std::collections::{BTreeMap, BTreeSet};

/// Facts about a shard that only observation reveals: gens, and notifications of the timer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watch {
    highest: u32,
    gens: BTreeMap<Name, u32>,
    /// Length of each ready queue, and count of publications.
    queues: BTreeMap<u32, usize>,
    /// Index and group of each turn.
    turns: BTreeSet<(String, Vec<u8>)>,
    said: usize,
    kept: BTreeMap<Name, &'static str>,
    pub(crate) timer: Option<u64>,
}

macro_rules! ensure {
    ($is:expr, $($text:tt)+) => { if !$is { return Err(format!($($text)+)); } };
}

// === impl Watch ===

impl Watch {
    pub(crate) fn lose(&mut self, name: &Name) {
        self.kept.remove(name);
    }

    /// Accepts writes that the test made without the scripts.
    pub(crate) fn pass_over(&mut self, shard: &Snapshot) {
        self.queues = shard.ready.iter().map(|(no, queue)| (*no, queue.len())).collect();
        let head = shard.index("alarms").values().min().copied();
        self.timer = head.into_iter().chain(self.timer).min();
    }
}

pub(crate) fn compare(model: &Model, shard: &Snapshot, watch: &mut Watch) -> Outcome {
    ensure!(shard.strangers.is_empty(), "keys that should not be: {:?}", shard.strangers);
    let names: Vec<_> = shard.bodies.keys().collect();
    ensure!(
        names == model.messages.keys().collect::<Vec<_>>(),
        "bodies {names:?}, not {:?}",
        model.messages.keys()
    );
    for (name, msg) in &model.messages {
        message(name, msg, model, shard, watch).map_err(|why| format!("{} {name:?}: {why}", msg.word()))?;
    }
    totals(model, shard)?;
    groups(model, shard)?;
    limits(model, shard)?;
    registry(model, shard)?;
    alarms(shard)?;
    histories(model, shard, watch)?;
    told(model, shard, watch)
}

fn message(name: &Name, msg: &Msg, model: &Model, shard: &Snapshot, watch: &mut Watch) -> Outcome {
    let stored = shard.envelope(name).expect("the bodies are the same");
    let generation = stored.generation;
    let mut wanted = msg.stored.clone();
    wanted.generation = generation;
    wanted.state = match msg.place {
        Place::Delayed | Place::Ready => State::Delayed,
        Place::Leased { .. } => State::Leased,
        Place::Dead => State::Dead,
        Place::Over { .. } => stored.state,
    };
    ensure!(stored == wanted, "stored {stored:?}, not {wanted:?}");
    let successor = shard.successor(name);
    ensure!(successor == msg.successor, "followed by {successor:?}, not {:?}", msg.successor);
    let last = watch.gens.insert(name.clone(), generation);
    if last != Some(generation) {
        ensure!(
            generation > watch.highest || last.is_none_or(|last| generation > last),
            "gen {generation} again"
        );
        watch.highest = watch.highest.max(generation);
    }
    let member = [&name.1[..], &generation.to_be_bytes()].concat();
    let in_bucket: Vec<_> =
        shard.buckets.iter().filter(|(no, _, m, _)| *no == name.0 && *m == member).collect();
    let group = wanted.group.as_ref().map_or(NO_GROUP, |group| group.as_str());
    let parked = shard.parked.get(&(name.0, group.to_owned()));
    let queue = shard.ready.get(&name.0).into_iter().chain(parked).flatten();
    let in_queue: Vec<_> =
        queue.filter(|entry| entry.starts_with(&member) && entry.len() == member.len() + 7).collect();
    let indexed = wanted.group.is_some() || wanted.expires.is_some();
    match &msg.place {
        Place::Delayed => {
            let due = msg.due();
            ensure!(
                in_bucket.iter().all(|(_, hour, _, score)| *hour == due / 3_600_000 && *score == due),
                "{in_bucket:?}"
            );
            ensure!(
                in_bucket.len() == 1 && in_queue.is_empty(),
                "{} buckets, {} queues",
                in_bucket.len(),
                in_queue.len()
            );
        }
        Place::Ready => {
            ensure!(
                in_bucket.is_empty() && in_queue.len() == 1,
                "{} buckets, {} queues",
                in_bucket.len(),
                in_queue.len()
            );
            let stamp = in_queue[0][member.len()..].iter().fold(0, |n, &byte| n << 8 | u64::from(byte));
            ensure!(
                (msg.due() * 1000..=model.latest_us).contains(&stamp),
                "ready at {stamp}: early, or to come"
            );
        }
        Place::Leased { receipt, until } => {
            let lease = shard.index("leases").get(receipt);
            ensure!(lease == Some(until), "lease of {receipt:?} until {until}, not {lease:?}");
            ensure!(
                *receipt == [index_name(name), generation.to_be_bytes().to_vec()].concat(),
                "gen {generation}"
            );
        }
        Place::Dead => {
            let at = msg.stored.at.get();
            ensure!(shard.dead.contains(&(name.0, member, at)), "not among {:?}", shard.dead);
        }
        Place::Over { word, forget } => {
            ensure!(stored.state.word() == *word && in_bucket.is_empty(), "it is {}", stored.state);
            let until = shard.forgotten(name);
            ensure!(until == Some(*forget), "remembered until {until:?}, not {forget}");
        }
    }
    let over = matches!(msg.place, Place::Over { .. });
    ensure!(
        over || (generation % 2 == 1) == indexed,
        "gen {generation} of a message that is indexed: {indexed}"
    );
    Ok(())
}

/// Entries equal messages in number: with each message in its place, no entry is superfluous.
fn totals(model: &Model, shard: &Snapshot) -> Outcome {
    let count = |is: &dyn Fn(&Msg) -> bool| model.messages.values().filter(|msg| is(msg)).count();
    let leased = count(&|msg| matches!(msg.place, Place::Leased { .. }));
    let pairs = [
        ("buckets", shard.buckets.len(), count(&|msg| msg.place == Place::Delayed)),
        ("leases", shard.index("leases").len(), leased),
        ("dead", shard.dead.len(), count(&|msg| msg.place == Place::Dead)),
        ("markers", shard.index("markers").len(), model.shifts.len() + shard.histories.len()),
        ("ends", shard.index("ends").len(), shard.ends.len()),
    ];
    for (what, is, should) in pairs {
        ensure!(is == should, "{is} entries in {what}, not {should}");
    }
    for ms in shard.ends.keys() {
        let time = shard.index("ends").get(format!("e:{ms}").as_bytes());
        ensure!(time == Some(ms), "the list of {ms} ends {time:?}");
    }
    for no in 1..=model.topics.len() as u32 {
        for counter in ["accepted", "delivered", "cancelled", "expired", "purged", "replaced", "buried"] {
            let should = model.books.get(&(counter, no)).copied().unwrap_or(0);
            let is = shard.number("stats", &format!("{counter}:{no}"));
            ensure!(is == should, "{counter}:{no} is {is}, not {should}");
        }
        for counter in ["ready", "leased"] {
            let here = |(name, msg): &(&Name, &Msg)| name.0 == no && msg.word() == counter;
            let should = model.messages.iter().filter(here).count() as i64;
            let is = shard.number("stats", &format!("{counter}:{no}"));
            // The pump counted stale entries of a bucket as ready.
            let drifts = counter == "ready" && model.poisoned && is > should;
            ensure!(is == should || drifts, "{counter}:{no} is {is}, not {should}");
        }
    }
    Ok(())
}

fn groups(model: &Model, shard: &Snapshot) -> Outcome {
    let mut wanted = Vec::new();
    let mut expiries = shard.index("expiries").clone();
    for (name, msg) in &model.messages {
        if let Some(group) = msg.stored.group.as_ref().filter(|group| msg.in_group(group.as_str())) {
            wanted.push((group.to_string(), index_name(name), msg.due()));
        }
        let listed = expiries.remove(&index_name(name));
        let leased = matches!(msg.place, Place::Leased { .. });
        match msg.expires().filter(|_| msg.is_pending() || leased) {
            Some(expires) if leased && expires <= model.latest_us / 1000 => {}
            Some(expires) if msg.stored.relative && expires == UnixMillis::MAX.get() => {
                ensure!(listed.is_none(), "{name:?} expires {listed:?}, and never should");
            }
            Some(expires) => ensure!(listed == Some(expires), "{name:?} expires {listed:?}, not {expires}"),
            None => ensure!(listed.is_none(), "{name:?} expires {listed:?}, and never should"),
        }
    }
    ensure!(expiries.is_empty(), "expiries of nothing: {expiries:?}");
    wanted.sort();
    let mut listed = shard.groups.clone();
    listed.sort();
    ensure!(listed == wanted, "groups {listed:?}, not {wanted:?}");
    Ok(())
}

/// Parked messages are in an index, and wait for a message of their group in flight or for the end of a pause, or have a turn.
fn limits(model: &Model, shard: &Snapshot) -> Outcome {
    let mut flights = 0;
    for (name, msg) in model.messages.iter().filter(|(_, msg)| is_among(&model.flights, msg)) {
        let group = msg.stored.group.as_ref().expect("a message in flight has a group");
        let Place::Leased { receipt, .. } = &msg.place else { continue };
        let listed = shard.index(&format!("f:{}:{group}", name.0)).contains_key(receipt);
        ensure!(listed, "{receipt:?} of {group} is not among the messages in flight");
        flights += 1;
    }
    let of = |kind: &'static str| shard.indexes.iter().filter(move |(name, _)| name.starts_with(kind));
    let listed: usize = of("f:").map(|(_, entries)| entries.len()).sum();
    ensure!(listed == flights, "{listed} messages are in flight, not {flights}");
    let full: BTreeSet<_> =
        of("k:").flat_map(|(name, groups)| groups.keys().map(|group| (&name[2..], lossy(group)))).collect();
    let numbered: Vec<_> = shard.parked.keys().map(|(no, group)| (no.to_string(), group.clone())).collect();
    let parked: BTreeSet<_> = numbered.iter().map(|(no, group)| (no.as_str(), group.clone())).collect();
    ensure!(full == parked, "groups with parked messages {full:?}, not {parked:?}");
    for (no, group) in parked {
        let has_turn = shard.index(&format!("n:{no}")).contains_key(group.as_bytes());
        let number = no.parse().unwrap();
        let head =
            shard.parked[&(number, group.clone())].first().map(|entry| entry[..entry.len() - 11].to_vec());
        let leads = head.is_some_and(|id| {
            let msg = model.messages.get(&(number, id));
            msg.is_some_and(|msg| msg.place == Place::Ready && msg.stored.blocks)
        });
        let waits = model.in_flight(number, group.as_bytes()) > 0
            || model.is_paused_group(number, group.as_bytes())
            || model.pace(number).is_some() && shard.index(&format!("y:{no}")).contains_key(group.as_bytes())
            || !leads && model.is_blocked(number, group.as_bytes());
        ensure!(has_turn || waits, "the parked messages of {group} wait for ever");
    }
    let buckets =
        of("v:").flat_map(|(name, groups)| groups.iter().map(move |(group, at)| (&name[2..], group, *at)));
    let buckets: BTreeMap<_, _> =
        buckets.map(|(no, group, at)| ((no.parse().unwrap(), group.clone()), at)).collect();
    ensure!(buckets == model.group_rates, "tokens of groups {buckets:?}, not {:?}", model.group_rates);
    let blocking =
        of("x:").flat_map(|(name, failed)| failed.keys().map(move |entry| (name.clone(), lossy(entry))));
    let failed = model.messages.iter().filter(|(_, msg)| msg.stored.blocks);
    let wanted: BTreeSet<_> = failed
        .map(|((no, id), msg)| {
            let group = msg.stored.group.as_ref().expect("a message that blocks has a group");
            (format!("x:{no}"), format!("{group}\u{1f}{}", lossy(id)))
        })
        .collect();
    let blocking: BTreeSet<_> = blocking.collect();
    ensure!(blocking == wanted, "failed messages that block {blocking:?}, not {wanted:?}");
    let pauses = of("q:")
        .flat_map(|(name, groups)| groups.iter().map(move |(group, at)| (&name[2..], lossy(group), *at)));
    let pauses: BTreeMap<_, _> = pauses.map(|(no, group, at)| ((no.parse().unwrap(), group), at)).collect();
    ensure!(pauses == model.paused_groups, "paused groups {pauses:?}, not {:?}", model.paused_groups);
    for (name, turns) in of("n:") {
        let is_full = |group: &Vec<u8>| full.contains(&(&name[2..], lossy(group)));
        ensure!(turns.keys().all(is_full), "a turn of nothing: {turns:?}");
    }
    Ok(())
}

fn registry(model: &Model, shard: &Snapshot) -> Outcome {
    let meta = shard.hashes.get("meta").ok_or("no meta")?;
    let field = |name: &str| meta.get(name).map(|value| lossy(value)).unwrap_or_default();
    ensure!(field("epoch") == model.epoch.to_string(), "epoch {}, not {}", field("epoch"), model.epoch);
    ensure!((field("hold") == "1") == model.held, "hold {:?}", field("hold"));
    let any_fair = (1..=model.topics.len() as u32).any(|no| model.is_fair(no));
    ensure!((field("fair") == "1") == any_fair, "fair {:?}", field("fair"));
    let (owner, until) = model.owner.clone().unwrap_or_default();
    ensure!(field("owner") == owner, "owner {}, not {owner}", field("owner"));
    ensure!(field("owner_until").parse().unwrap_or(0) == until, "owned until {}", field("owner_until"));
    let named = meta.keys().filter(|name| name.starts_with("topic:")).count();
    ensure!(named == model.living().len(), "{named} topics have a name");
    ensure!(field("topics") == model.topics.len().to_string(), "{} topics", field("topics"));
    for (at, topic) in model.topics.iter().enumerate() {
        let no = at as u32 + 1;
        if topic.is_empty() {
            ensure!(!shard.hashes.contains_key(&format!("t:{no}")), "topic {no} was forgotten, and is there");
            continue;
        }
        ensure!(field(&format!("topic:{topic}")) == no.to_string(), "{topic} is not number {no}");
        let mut policy = shard.hashes.get(&format!("t:{no}")).cloned().unwrap_or_default();
        ensure!(policy.remove("name").as_deref() == Some(topic.as_bytes()), "t:{no} is not {topic}");
        let rate = policy.remove("tat").map(|empty| lossy(&empty));
        let wanted = model.rates.get(&no).map(ToString::to_string);
        ensure!(rate == wanted, "the rate's bucket is empty at {rate:?}, not {wanted:?}");
        for (note, wanted) in model.notes(no) {
            let is = policy.remove(&note);
            ensure!(is.as_ref() == Some(&wanted), "{note} of {topic} is {is:?}, not {wanted:?}");
        }
        let policy: BTreeMap<_, _> = policy.into_iter().map(|(field, value)| ((no, field), value)).collect();
        let wanted: BTreeMap<_, _> = model
            .settings
            .iter()
            .filter(|((n, _), _)| *n == no)
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        ensure!(policy == wanted, "policy {policy:?}, not {wanted:?}");
    }
    let dictionaries = shard.hashes.get("dictionaries").cloned().unwrap_or_default();
    ensure!(dictionaries == model.dictionaries, "dictionaries {dictionaries:?}");
    let shifts: Vec<_> = shard.hashes.keys().filter_map(|name| name.strip_prefix("shift:")).collect();
    ensure!(
        shifts == model.shifts.keys().collect::<Vec<_>>(),
        "shifts {shifts:?}, not {:?}",
        model.shifts.keys()
    );
    Ok(())
}

/// An alarm may be early, never late, and belongs to a known entry.
fn alarms(shard: &Snapshot) -> Outcome {
    let alarms = shard.index("alarms");
    let mut heads: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
    for (no, hour, _, due) in &shard.buckets {
        let head = heads.entry(format!("b:{no}:{hour}").into_bytes()).or_insert(*due);
        *head = (*head).min(*due);
    }
    for index in ["leases", "expiries", "markers", "ends"] {
        if let Some(&first) = shard.index(index).values().min() {
            heads.insert(index.as_bytes().to_vec(), first);
        }
    }
    for (what, head) in heads {
        let alarm = alarms.get(&what);
        ensure!(alarm.is_some_and(|alarm| *alarm <= head), "alarm {alarm:?} for {} of {head}", lossy(&what));
    }
    for member in alarms.keys() {
        let text = lossy(member);
        let known = ["leases", "expiries", "markers", "ends"].contains(&text.as_str())
            || text.strip_prefix("b:").and_then(|rest| parse_name(rest.as_bytes())).is_some();
        ensure!(known, "an alarm for {text}");
    }
    Ok(())
}

/// Histories exist only in topics that keep a history, and are bounded. The last event of a message explains
/// its place.
fn histories(model: &Model, shard: &Snapshot, watch: &mut Watch) -> Outcome {
    let keeps = |no: u32| model.setting(no, "history").is_some_and(|most| most != b"0");
    let flag = shard.hashes.get("meta").is_some_and(|meta| meta.contains_key("history"));
    let any = (1..=model.topics.len() as u32).any(keeps);
    ensure!(flag == any, "some topic keeps a history: {flag}, not {any}");
    for (no, events) in &shard.histories {
        ensure!(keeps(*no), "topic {no} keeps no history, and has one");
        let marker = shard.index("markers").contains_key(format!("h:{no}").as_bytes());
        ensure!(marker && events.len() < 400, "history {no}: forgotten {marker}, {} events", events.len());
    }
    let before = std::mem::take(&mut watch.kept);
    watch.kept = (model.messages.iter().filter(|(name, _)| keeps(name.0)))
        .map(|(name, msg)| (name.clone(), msg.word()))
        .collect();
    let last = |name: &Name| {
        let events = shard.histories.get(&name.0)?;
        let (_, what) = events.iter().rfind(|(id, _)| *id == name.1)?;
        what.split(' ').next()
    };
    for (name, &was) in &before {
        let is = watch.kept.get(name).copied();
        if is == Some(was) || !keeps(name.0) {
            continue;
        }
        let fits: &[&str] = match is {
            Some("delayed") => &["put", "rescheduled", "failed", "released", "lease_ended", "replayed"],
            Some("ready") => {
                &["put", "rescheduled", "ready", "failed", "released", "lease_ended", "replayed"]
            }
            Some("leased") => &["leased", "cancel_requested"],
            Some("dead") => &["buried"],
            Some(over) => &[over],
            None if ["delivered", "cancelled", "expired", "purged"].contains(&was) => continue,
            None => &["delivered", "cancelled", "expired", "purged"],
        };
        let word = last(name);
        ensure!(
            word.is_some_and(|word| fits.contains(&word)),
            "{name:?} went from {was} to {is:?} by {word:?}"
        );
    }
    Ok(())
}

fn turns_of(shard: &Snapshot) -> BTreeSet<(String, Vec<u8>)> {
    let indexes = shard.indexes.iter().filter(|(name, _)| name.starts_with("n:"));
    indexes.flat_map(|(name, groups)| groups.keys().map(|group| (name.clone(), group.clone()))).collect()
}

/// The timer was notified of every nearer due time, and waiting consumers of every queue that was empty.
fn told(model: &Model, shard: &Snapshot, watch: &mut Watch) -> Outcome {
    let news = &shard.said[watch.said.min(shard.said.len())..];
    watch.said = shard.said.len();
    for line in news {
        if let Some((_, due)) = line.split_once("}:wake=") {
            let due = due.parse().map_err(|_| format!("a wake for {due}"))?;
            watch.timer = Some(watch.timer.map_or(due, |timer| timer.min(due)));
        }
    }
    let head = shard.index("alarms").values().min().copied();
    let knows = head.is_none_or(|head| watch.timer.is_some_and(|timer| timer <= head));
    ensure!(knows, "the timer sleeps until {:?}, the next alarm is {head:?}", watch.timer);
    for (no, queue) in &shard.ready {
        let was_empty = watch.queues.get(no).is_none_or(|&length| length == 0);
        let heard = news.iter().any(|line| line.contains("}:ready="));
        ensure!(!was_empty || heard, "nobody was told that queue {no} has {} entries", queue.len());
    }
    for (name, groups) in shard.indexes.iter().filter(|(name, _)| name.starts_with("n:")) {
        let heard = news.iter().any(|line| line.contains("}:ready="));
        let is_new = groups.keys().any(|group| !watch.turns.contains(&(name.clone(), group.clone())));
        let was_empty = !watch.turns.iter().any(|(other, _)| other == name);
        // In fair order the turns are a queue like the ready queue.
        let is_fair = name[2..].parse().is_ok_and(|no| model.is_fair(no));
        ensure!(!is_new || heard || is_fair && !was_empty, "nobody was told of a turn in {name}");
    }
    watch.turns = turns_of(shard);
    watch.queues = shard.ready.iter().map(|(no, queue)| (*no, queue.len())).collect();
    Ok(())
}
