//! The plan is the claim: random walks of members, an etcd and a Redis, in which any message may be late and
//! any member may die.
//!
//! [`Owning`] and the planner are the real code. Only the two servers are models: an etcd that holds
//! registrations and the plan, and a Redis that issues epochs. A failed walk prints its seed.
//!
//! A walk ends in one of three ways, each with every shard pumped within a round: the faults end; members
//! stay cut off from shards that others reach; etcd takes no writes any more, and members are gone.

use delayq_cluster::{
    Candidate, MemberId, OwnershipView, Owning, Plan, ShardCount, ShardId, ShardRanges, compute,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

const WALKS: u64 = 3_000;
const STEPS: usize = 120;
const MEMBERS: usize = 4;
const SHARDS: u16 = 3;
/// Time without a pump by the owner before another member may claim a shard.
const ORPHANED_FOR: Duration = Duration::from_secs(5);

struct World {
    dice: fastrand::Rng,
    now: Instant,
    etcd: Etcd,
    redis: BTreeMap<ShardId, (u64, usize)>,
    /// Shards without a pump by their owner since the first check by a member without an epoch, and the time
    /// of that check.
    orphaned: BTreeMap<ShardId, Instant>,
    members: Vec<Member>,
    pumpers: BTreeMap<(ShardId, u64), usize>,
    pumped: BTreeSet<ShardId>,
    /// Epochs that were given up because the plan assigned the shard to no member.
    given_up: BTreeSet<(ShardId, u64)>,
}

#[derive(Default)]
struct Etcd {
    registered: BTreeMap<u64, Registered>,
    /// True while etcd takes no writes, and still answers.
    full: bool,
    plan: Option<Plan>,
    plan_revision: u64,
    revision: u64,
}

struct Registered {
    member: usize,
    draining: bool,
    hindered: ShardRanges,
}

#[derive(Default)]
struct Member {
    dead: bool,
    draining: bool,
    deaf: bool,
    cut_off: BTreeSet<ShardId>,
    /// The rank of the last known registration of this member.
    rank: Option<u64>,
    owning: Owning,
    epochs: BTreeMap<ShardId, u64>,
    answers: VecDeque<(ShardId, u64)>,
    read: Option<(Vec<Candidate>, Option<Plan>, u64)>,
}

fn all() -> impl Iterator<Item = ShardId> {
    (0..SHARDS).map(ShardId::new)
}

fn life(member: usize, rank: u64) -> MemberId {
    MemberId::from_text(&format!("m{member}-{rank}"))
}

// === impl Etcd ===

impl Etcd {
    /// The view of this life of a member; empty if the member is not registered.
    fn view(&self, member: usize, rank: Option<u64>) -> OwnershipView {
        let Some(rank) = rank.filter(|rank| self.registered.contains_key(rank)) else {
            return OwnershipView::default();
        };
        let Some(plan) = &self.plan else { return OwnershipView::default() };
        let (planned, nobodys) = (plan.shards_of(&life(member, rank)), plan.shards_of_nobody());
        OwnershipView { planned, nobodys, plan_version: plan.version, ..OwnershipView::default() }
    }

    fn candidates(&self) -> Vec<Candidate> {
        let candidate = |(&rank, registered): (&u64, &Registered)| Candidate {
            id: life(registered.member, rank),
            name: format!("m{}", registered.member),
            draining: registered.draining,
            hindered: registered.hindered.clone(),
        };
        self.registered.iter().map(candidate).collect()
    }
}

// === impl Member ===

impl Member {
    fn hindered(&self) -> ShardRanges {
        self.cut_off.iter().copied().collect()
    }
}

// === impl World ===

impl World {
    fn new(seed: u64) -> Self {
        Self {
            dice: fastrand::Rng::with_seed(seed),
            now: Instant::now(),
            etcd: Etcd::default(),
            redis: BTreeMap::new(),
            orphaned: BTreeMap::new(),
            members: (0..MEMBERS).map(|_| Member::default()).collect(),
            pumpers: BTreeMap::new(),
            pumped: BTreeSet::new(),
            given_up: BTreeSet::new(),
        }
    }

    fn step(&mut self) {
        self.now += Duration::from_secs(3);
        let m = self.dice.usize(..MEMBERS);
        let alive = self.members.iter().filter(|member| !member.dead).count();
        match self.dice.u32(..100) {
            0..16 => self.hear(m),
            16..20 => self.say(m),
            20..34 => self.claim(m),
            34..48 => self.answer(m),
            48..61 => self.pump(m),
            61..65 => self.rescue(m),
            65..72 => self.ask(m),
            72..78 => self.read(m),
            78..85 => self.write(m),
            85..88 => self.members[m].deaf ^= true,
            88..91 => {
                let shard = ShardId::new(self.dice.u16(..SHARDS));
                if !self.members[m].cut_off.remove(&shard) {
                    self.members[m].cut_off.insert(shard);
                }
            }
            91..94 => self.lease_ends(m),
            94..95 => self.etcd.full ^= true,
            95..97 if alive > 1 => self.drain(m),
            97..98 if alive > 1 => self.members[m].dead = true,
            98.. if self.members[m].dead => self.start_again(m),
            _ => {}
        }
        self.is_looked_after();
    }

    /// A member reads etcd, and may have missed any number of plans.
    fn hear(&mut self, m: usize) {
        let member = &mut self.members[m];
        if member.dead || member.deaf {
            return;
        }
        let registered = member.rank.is_some_and(|rank| self.etcd.registered.contains_key(&rank));
        if !registered && !member.draining && !self.etcd.full {
            self.etcd.revision += 1;
            let hindered = member.hindered();
            let registered = Registered { member: m, draining: false, hindered };
            self.etcd.registered.insert(self.etcd.revision, registered);
            (member.rank, member.read) = (Some(self.etcd.revision), None);
        }
        let view = self.etcd.view(m, member.rank);
        let gone = member.owning.follow(&view, self.now).gone;
        for shard in gone {
            member.epochs.remove(&shard);
            if let Some(&(epoch, owner)) = self.redis.get(&shard)
                && owner == m
            {
                self.given_up.insert((shard, epoch));
            }
        }
        if member.draining && member.owning.is_empty() {
            self.end(m);
        }
    }

    /// A member reports the shards out of its reach.
    fn say(&mut self, m: usize) {
        let member = &self.members[m];
        let registered = member.rank.and_then(|rank| self.etcd.registered.get_mut(&rank));
        if let Some(registered) = registered.filter(|_| !member.dead && !member.deaf && !self.etcd.full) {
            registered.hindered = member.hindered();
        }
    }

    /// A member checks the other members' shards, and adopts shards without a pump since the last check.
    fn rescue(&mut self, m: usize) {
        let member = &mut self.members[m];
        if member.dead || member.draining {
            return;
        }
        for shard in all().filter(|shard| !member.cut_off.contains(shard)) {
            if !member.owning.is_others(shard) {
                continue;
            }
            let since = *self.orphaned.entry(shard).or_insert(self.now);
            if self.now < since + ORPHANED_FOR {
                continue;
            }
            let epoch = self.redis.get(&shard).map_or(1, |(epoch, _)| epoch + 1);
            self.redis.insert(shard, (epoch, m));
            self.orphaned.remove(&shard);
            member.owning.adopted(shard, self.now);
            member.epochs.insert(shard, epoch);
        }
    }

    fn claim(&mut self, m: usize) {
        let member = &mut self.members[m];
        if member.dead {
            return;
        }
        for shard in member.owning.claims(self.now) {
            if member.cut_off.contains(&shard) {
                member.owning.retry(shard, self.now);
                continue;
            }
            let epoch = self.redis.get(&shard).map_or(1, |(epoch, _)| epoch + 1);
            self.redis.insert(shard, (epoch, m));
            member.answers.push_back((shard, epoch));
        }
    }

    fn answer(&mut self, m: usize) {
        let member = &mut self.members[m];
        if member.dead {
            return;
        }
        if let Some((shard, epoch)) = member.answers.pop_front() {
            if member.owning.claimed(shard, self.now) {
                let newest = member.epochs.entry(shard).or_insert(epoch);
                *newest = epoch.max(*newest);
            } else {
                self.given_up.insert((shard, epoch));
            }
        }
    }

    fn pump(&mut self, m: usize) {
        let member = &mut self.members[m];
        if member.dead {
            return;
        }
        member.owning.parting_polls(self.now);
        for (shard, epoch) in member.epochs.clone() {
            let (newest, owner) = self.redis[&shard];
            if member.cut_off.contains(&shard) {
                continue;
            }
            if newest > epoch {
                member.epochs.remove(&shard);
                member.owning.fenced(shard, self.now);
                continue;
            }
            assert_eq!(owner, m, "Redis gave epoch {epoch} of shard {shard} to another");
            assert_eq!(*self.pumpers.entry((shard, epoch)).or_insert(m), m, "two pump under one epoch");
            self.pumped.insert(shard);
            self.orphaned.remove(&shard);
        }
        if member.draining && member.owning.is_empty() {
            self.end(m);
        }
    }

    fn ask(&mut self, m: usize) {
        let member = &mut self.members[m];
        if member.dead {
            return;
        }
        let planned = (!member.deaf).then(|| self.etcd.view(m, member.rank).planned);
        for shard in member.owning.questions(self.now) {
            match &planned {
                Some(planned) if planned.contains(&shard) => member.owning.still_mine(shard, self.now),
                _ => member.owning.doubt(shard, self.now),
            }
        }
    }

    fn read(&mut self, m: usize) {
        let first = self.etcd.registered.first_key_value().map(|(rank, _)| *rank);
        let member = &mut self.members[m];
        if !member.dead && !member.deaf && member.rank.is_some() && member.rank == first {
            member.read = Some((self.etcd.candidates(), self.etcd.plan.clone(), self.etcd.plan_revision));
        }
    }

    fn write(&mut self, m: usize) {
        let member = &mut self.members[m];
        let Some(rank) = member.rank.filter(|_| !member.dead && !member.deaf) else { return };
        let Some((candidates, known, revision)) = member.read.take() else { return };
        if self.etcd.full || !self.etcd.registered.contains_key(&rank) || self.etcd.plan_revision != revision
        {
            return;
        }
        let plan = compute(ShardCount::new(SHARDS).unwrap(), &candidates, known.as_ref(), &life(m, rank));
        self.etcd.revision += 1;
        (self.etcd.plan, self.etcd.plan_revision) = (Some(plan), self.etcd.revision);
    }

    fn lease_ends(&mut self, m: usize) {
        self.etcd.registered.retain(|_, registered| registered.member != m);
    }

    /// Tells a member to stop; the member registers as draining if etcd is in reach.
    fn drain(&mut self, m: usize) {
        let member = &mut self.members[m];
        if member.dead {
            return;
        }
        if member.draining || member.deaf || member.owning.is_empty() {
            // The time for handing over ends, or no shard is left.
            return self.end(m);
        }
        member.draining = true;
        let registration = member.rank.and_then(|rank| self.etcd.registered.get_mut(&rank));
        if let Some(registered) = registration.filter(|_| !self.etcd.full) {
            registered.draining = true;
        }
    }

    fn start_again(&mut self, m: usize) {
        self.members[m] = Member::default();
        let theirs = self.redis.iter().filter(|(_, (_, owner))| *owner == m);
        self.given_up.extend(theirs.map(|(&shard, &(epoch, _))| (shard, epoch)));
    }

    fn end(&mut self, m: usize) {
        self.lease_ends(m);
        self.members[m].dead = true;
    }

    /// A living owner of the newest epoch pumps the shard: only a successor's claim takes a shard away.
    fn is_looked_after(&self) {
        for (&shard, &(epoch, owner)) in &self.redis {
            let member = &self.members[owner];
            let has = member.owning.shards().any(|owned| owned == shard);
            let coming = member.answers.contains(&(shard, epoch));
            let given_up = self.given_up.contains(&(shard, epoch));
            assert!(
                member.dead || has || coming || given_up,
                "m{owner} has the newest epoch {epoch} of shard {shard} and does not pump it"
            );
        }
    }

    fn calm(&mut self) {
        self.etcd.full = false;
        self.members.iter_mut().for_each(|member| member.cut_off.clear());
        self.leave();
        self.plan();
    }

    /// Each shard stays out of the reach of some members, perhaps of the leader, but not of all.
    fn cut_off(&mut self) {
        self.calm();
        let alive: Vec<usize> = (0..MEMBERS).filter(|&m| !self.members[m].dead).collect();
        for shard in all() {
            let able = self.dice.choice(&alive).copied();
            for &m in alive.iter().filter(|&&m| Some(m) != able) {
                if self.dice.bool() {
                    self.members[m].cut_off.insert(shard);
                }
            }
        }
        self.plan();
    }

    /// All members but one may die, and etcd takes no writes from then on: no plan replaces the dead.
    fn fill(&mut self) {
        self.calm();
        self.etcd.full = true;
        let survivor = (0..MEMBERS).find(|&m| !self.members[m].dead);
        for m in (0..MEMBERS).filter(|&m| Some(m) != survivor) {
            if self.dice.bool() {
                self.end(m);
            }
        }
    }

    /// Every member hears etcd again; draining members and the leases of the dead end.
    fn leave(&mut self) {
        self.now += Duration::from_secs(60);
        for m in 0..MEMBERS {
            let member = &mut self.members[m];
            member.deaf = false;
            if member.dead || member.draining {
                self.end(m);
            }
        }
        // The leases of restarted members' former lives end as well.
        let ranks: Vec<Option<u64>> = self.members.iter().map(|member| member.rank).collect();
        self.etcd.registered.retain(|rank, registered| ranks[registered.member] == Some(*rank));
    }

    fn plan(&mut self) {
        for _ in 0..2 {
            (0..MEMBERS).for_each(|m| self.hear(m));
            (0..MEMBERS).for_each(|m| self.say(m));
            (0..MEMBERS).for_each(|m| self.read(m));
            (0..MEMBERS).for_each(|m| self.write(m));
        }
        (0..MEMBERS).for_each(|m| self.hear(m));
    }

    fn round(&mut self) {
        self.now += Duration::from_secs(6);
        self.pumped.clear();
        for _ in 0..2 {
            for m in 0..MEMBERS {
                self.claim(m);
                while !self.members[m].answers.is_empty() && !self.members[m].dead {
                    self.answer(m);
                }
                self.pump(m);
                self.ask(m);
            }
        }
        self.is_looked_after();
    }

    fn all_pumped(&mut self) {
        self.round();
        let missed: Vec<ShardId> = all().filter(|shard| !self.pumped.contains(shard)).collect();
        assert!(missed.is_empty(), "not pumped within a round: {missed:?}");
    }

    /// Each shard has one worker: the planned member, with the newest epoch. A member out of reach of the
    /// shard may not know of its fencing yet.
    fn is_settled(&self) {
        let alive = |m: &usize| !self.members[*m].dead;
        for shard in all() {
            let works = |m: &usize| {
                let member = &self.members[*m];
                member.epochs.contains_key(&shard) && !member.cut_off.contains(&shard)
            };
            let workers: Vec<usize> = (0..MEMBERS).filter(alive).filter(works).collect();
            let planned: Vec<usize> = (0..MEMBERS)
                .filter(alive)
                .filter(|&m| self.etcd.view(m, self.members[m].rank).planned.contains(&shard))
                .collect();
            assert_eq!(workers, planned, "the workers of shard {shard}, and whom the plan names");
            assert_eq!(planned.len(), 1, "whom the plan names for shard {shard}");
        }
    }
}

fn walk(seed: u64, end: fn(&mut World), check: fn(&mut World)) {
    let mut world = World::new(seed);
    (0..STEPS).for_each(|_| world.step());
    end(&mut world);
    if world.members.iter().any(|member| !member.dead) {
        check(&mut world);
    }
}

fn walks(end: fn(&mut World), check: fn(&mut World)) {
    for seed in 0..WALKS {
        if let Err(panic) = std::panic::catch_unwind(|| walk(seed, end, check)) {
            println!("the walk of seed {seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

fn pumped_by_the_planned(world: &mut World) {
    world.all_pumped();
    world.round();
    world.is_settled();
}

#[test]
fn one_member_pumps_under_an_epoch_and_every_shard_is_pumped_within_a_round() {
    walks(World::calm, pumped_by_the_planned);
}

#[test]
fn a_shard_that_members_do_not_reach_is_pumped_within_a_round_by_one_that_does() {
    walks(World::cut_off, pumped_by_the_planned);
}

#[test]
fn a_shard_whose_owner_died_while_etcd_takes_no_writes_is_adopted_at_the_second_check() {
    walks(World::fill, |world| {
        world.round();
        // The first check finds the shards without a pump, the second adopts them.
        for _ in 0..2 {
            (0..MEMBERS).for_each(|m| world.rescue(m));
            world.round();
        }
        world.all_pumped();
        world.etcd.full = false;
        world.leave();
        world.plan();
        world.all_pumped();
        world.round();
        world.is_settled();
    });
}
