//! The plan is the claim: random walks of members, an etcd and a Redis, in which any message may be late and any member may die.
//!
//! [`Owning`] and the planner are the real code. Only the two servers are models: an etcd that holds registrations and the
//! plan, and a Redis that gives out epochs. A walk that fails prints its seed.

use delayq_cluster::{Candidate, MemberId, OwnershipView, Owning, Plan, ShardCount, ShardId, compute};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

const WALKS: u64 = 3_000;
const STEPS: usize = 120;
const MEMBERS: usize = 4;
const SHARDS: u16 = 3;

/// The fleet, its servers, and what was observed.
struct World {
    dice: fastrand::Rng,
    now: Instant,
    etcd: Etcd,
    /// The newest epoch of each shard, and its owner.
    redis: BTreeMap<ShardId, (u64, usize)>,
    members: Vec<Member>,
    /// The member that pumped under an epoch.
    pumpers: BTreeMap<(ShardId, u64), usize>,
    /// The shards that were pumped in this round.
    pumped: BTreeSet<ShardId>,
    /// Epochs that were given up because the plan gave the shard to nobody.
    given_up: BTreeSet<(ShardId, u64)>,
}

#[derive(Default)]
struct Etcd {
    /// By rank: the member, and true if draining.
    registered: BTreeMap<u64, (usize, bool)>,
    plan: Option<Plan>,
    plan_revision: u64,
    revision: u64,
}

#[derive(Default)]
struct Member {
    dead: bool,
    draining: bool,
    /// True while etcd is out of reach.
    deaf: bool,
    /// The shards that are out of reach in Redis.
    cut_off: BTreeSet<ShardId>,
    /// The rank of the last known registration of this member.
    rank: Option<u64>,
    owning: Owning,
    epochs: BTreeMap<ShardId, u64>,
    /// Redis's answers to claims, still under way.
    answers: VecDeque<(ShardId, u64)>,
    /// The leader's last reading, before its write.
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
        let candidate = |(&rank, &(member, draining)): (&u64, &(usize, bool))| Candidate {
            id: life(member, rank),
            name: format!("m{member}"),
            draining,
            hindered: false,
        };
        self.registered.iter().map(candidate).collect()
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
            members: (0..MEMBERS).map(|_| Member::default()).collect(),
            pumpers: BTreeMap::new(),
            pumped: BTreeSet::new(),
            given_up: BTreeSet::new(),
        }
    }

    /// One random event.
    fn step(&mut self) {
        self.now += Duration::from_secs(3);
        let m = self.dice.usize(..MEMBERS);
        let alive = self.members.iter().filter(|member| !member.dead).count();
        match self.dice.u32(..100) {
            0..20 => self.hear(m),
            20..35 => self.claim(m),
            35..50 => self.answer(m),
            50..65 => self.pump(m),
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
            91..95 => self.lease_ends(m),
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
        if !member.rank.is_some_and(|rank| self.etcd.registered.contains_key(&rank)) && !member.draining {
            self.etcd.revision += 1;
            self.etcd.registered.insert(self.etcd.revision, (m, false));
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
                member.epochs.insert(shard, epoch);
            } else {
                self.given_up.insert((shard, epoch));
            }
        }
    }

    /// Pumps every shard whose epoch the member has.
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

    /// The leader reads the members and the plan. Anything may happen between this reading and the write.
    fn read(&mut self, m: usize) {
        let first = self.etcd.registered.first_key_value().map(|(rank, _)| *rank);
        let member = &mut self.members[m];
        if !member.dead && !member.deaf && member.rank.is_some() && member.rank == first {
            member.read = Some((self.etcd.candidates(), self.etcd.plan.clone(), self.etcd.plan_revision));
        }
    }

    /// The leader writes the plan, unless its registration is gone or the plan has changed.
    fn write(&mut self, m: usize) {
        let member = &mut self.members[m];
        let Some(rank) = member.rank.filter(|_| !member.dead && !member.deaf) else { return };
        let Some((candidates, known, revision)) = member.read.take() else { return };
        if !self.etcd.registered.contains_key(&rank) || self.etcd.plan_revision != revision {
            return;
        }
        let plan = compute(ShardCount::new(SHARDS).unwrap(), &candidates, known.as_ref(), &life(m, rank));
        self.etcd.revision += 1;
        (self.etcd.plan, self.etcd.plan_revision) = (Some(plan), self.etcd.revision);
    }

    fn lease_ends(&mut self, m: usize) {
        self.etcd.registered.retain(|_, (member, _)| *member != m);
    }

    /// A member is to stop, and registers as draining if etcd is in reach.
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
        if let Some((_, draining)) = registration {
            *draining = true;
        }
    }

    /// A new process under the name of a dead one, without its epochs.
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

    /// Faults end, and draining members and the leases of the dead with them.
    fn calm(&mut self) {
        self.now += Duration::from_secs(60);
        for m in 0..MEMBERS {
            let member = &mut self.members[m];
            (member.deaf, member.cut_off) = (false, BTreeSet::new());
            if member.dead || member.draining {
                self.end(m);
            }
        }
        // The leases of restarted members' former lives end as well.
        let ranks: Vec<Option<u64>> = self.members.iter().map(|member| member.rank).collect();
        self.etcd.registered.retain(|rank, (member, _)| ranks[*member] == Some(*rank));
        for _ in 0..2 {
            (0..MEMBERS).for_each(|m| self.hear(m));
            (0..MEMBERS).for_each(|m| self.read(m));
            (0..MEMBERS).for_each(|m| self.write(m));
        }
        (0..MEMBERS).for_each(|m| self.hear(m));
    }

    /// Every member pumps its shards, and claims or asks as the answers require.
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

    /// Each shard has one worker: the member that the plan names, with the newest epoch.
    fn is_settled(&self) {
        let alive = |m: &usize| !self.members[*m].dead;
        for shard in all() {
            let workers: Vec<usize> =
                (0..MEMBERS).filter(alive).filter(|&m| self.members[m].epochs.contains_key(&shard)).collect();
            let planned: Vec<usize> = (0..MEMBERS)
                .filter(alive)
                .filter(|&m| self.etcd.view(m, self.members[m].rank).planned.contains(&shard))
                .collect();
            assert_eq!(workers, planned, "the workers of shard {shard}, and whom the plan names");
            assert_eq!(planned.len(), 1, "whom the plan names for shard {shard}");
        }
    }
}

fn walk(seed: u64) {
    let mut world = World::new(seed);
    (0..STEPS).for_each(|_| world.step());
    world.calm();
    if world.members.iter().all(|member| member.dead) {
        return;
    }
    world.round();
    let missed: Vec<ShardId> = all().filter(|shard| !world.pumped.contains(shard)).collect();
    assert!(missed.is_empty(), "not pumped within a round: {missed:?}");
    world.round();
    world.is_settled();
}

#[test]
fn one_member_pumps_under_an_epoch_and_every_shard_is_pumped_within_a_round() {
    for seed in 0..WALKS {
        if let Err(panic) = std::panic::catch_unwind(|| walk(seed)) {
            println!("the walk of seed {seed}");
            std::panic::resume_unwind(panic);
        }
    }
}
