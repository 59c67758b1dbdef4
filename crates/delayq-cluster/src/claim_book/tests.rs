//! The claim book, step by step and under random news.

use super::*;
use proptest::prelude::*;

fn shard(n: u16) -> ShardId {
    ShardId::new(n)
}

fn set(shards: &[u16]) -> BTreeSet<ShardId> {
    shards.iter().copied().map(ShardId::new).collect()
}

fn nobody(_: ShardId) -> Option<String> {
    None
}

fn free(_: ShardId) -> bool {
    false
}

fn owning(shards: &[u16]) -> ClaimBook {
    let mut book = ClaimBook::default();
    book.plan(1, &set(shards), nobody, free);
    for shard in book.start_claims(100) {
        book.claim_won(shard, 10);
    }
    book
}

fn owned(book: &ClaimBook) -> Vec<u16> {
    book.view(Trust::Joining).owned.keys().map(|s| s.get()).collect()
}

fn parted(book: &ClaimBook, n: u16) -> Lost {
    book.view(Trust::Joining).parted[&shard(n)].clone()
}

#[test]
fn a_planned_shard_is_claimed_once_and_then_owned() {
    let mut book = ClaimBook::default();
    book.plan(1, &set(&[1, 2, 3]), nobody, free);
    book.start_yields(9);
    assert_eq!(book.start_claims(2).len(), 2);
    assert_eq!(book.start_claims(9), [shard(3)]);
    assert!(book.start_claims(9).is_empty());
    book.claim_won(shard(1), 5);
    assert_eq!(owned(&book), [1]);
    assert_eq!(book.view(Trust::Joining).unsettled, 2);
}

#[test]
fn no_key_is_deleted_before_the_consumer_confirmed() {
    let mut book = owning(&[1, 2]);
    book.plan(2, &set(&[2]), |_| Some("heir".into()), free);
    book.start_yields(9);
    assert_eq!(owned(&book), [2]);
    assert!(book.start_deletes(9).is_empty());
    let lost = parted(&book, 1);
    assert_eq!(lost.reason, LossReason::HandOver { to: Some("heir".into()) });
    book.confirmed(&lost);
    assert_eq!(book.start_deletes(9), [shard(1)]);
    book.deleted(shard(1));
    assert!(book.view(Trust::Joining).parted.is_empty());
    assert_eq!(book.view(Trust::Joining).unsettled, 0);
}

#[test]
fn shards_are_handed_over_a_few_at_a_time_and_kept_until_their_turn() {
    let mut book = owning(&[1, 2, 3, 4, 5]);
    book.plan(2, &set(&[5]), nobody, free);
    book.start_yields(2);
    assert_eq!(owned(&book), [3, 4, 5]);
    book.start_yields(2);
    assert_eq!(owned(&book), [3, 4, 5], "two are under way");
    assert!(book.has_queue());
    book.confirmed(&parted(&book, 1));
    book.start_yields(2);
    assert_eq!(owned(&book), [3, 4, 5], "the key is not deleted yet");
    assert_eq!(book.start_deletes(9), [shard(1)]);
    book.deleted(shard(1));
    book.start_yields(2);
    assert_eq!(owned(&book), [4, 5]);
    // Meant for us again before its turn came: it never stopped.
    book.plan(3, &set(&[4, 5]), nobody, free);
    book.start_yields(9);
    assert_eq!(owned(&book), [4, 5]);
    assert!(!book.has_queue());
}

#[test]
fn a_confirmation_of_an_earlier_claim_confirms_nothing() {
    let mut book = owning(&[1]);
    book.plan(2, &set(&[]), nobody, free);
    book.start_yields(9);
    let first = parted(&book, 1);
    book.plan(3, &set(&[1]), nobody, free);
    book.start_yields(9);
    book.confirmed(&first);
    assert_eq!(owned(&book), [1]);
    book.plan(4, &set(&[]), nobody, free);
    book.start_yields(9);
    book.confirmed(&first);
    assert!(book.start_deletes(9).is_empty());
}

#[test]
fn a_shard_planned_back_before_the_confirmation_is_won_without_a_request() {
    let mut book = owning(&[1]);
    let before = book.view(Trust::Joining).owned[&shard(1)];
    book.plan(2, &set(&[]), nobody, free);
    book.start_yields(9);
    book.plan(3, &set(&[1]), nobody, free);
    book.start_yields(9);
    assert!(owned(&book).is_empty());
    book.confirmed(&parted(&book, 1));
    assert_ne!(book.view(Trust::Joining).owned[&shard(1)], before);
    assert!(book.start_claims(9).is_empty());
}

#[test]
fn a_held_shard_is_claimed_when_its_key_goes() {
    let mut book = ClaimBook::default();
    book.plan(1, &set(&[1]), nobody, free);
    book.start_yields(9);
    book.start_claims(9);
    book.claim_held(shard(1), 20);
    assert_eq!(book.view(Trust::Joining).coming, set(&[1]));
    assert!(book.start_claims(9).is_empty());
    book.key_deleted(shard(1), 21);
    assert_eq!(book.start_claims(9), [shard(1)]);
}

#[test]
fn a_shard_believed_to_be_held_is_awaited_and_tried_after_a_while() {
    let mut book = ClaimBook::default();
    book.plan(1, &set(&[1, 2, 3]), nobody, |shard| shard.get() < 3);
    assert_eq!(book.start_claims(9), [shard(3)]);
    assert_eq!(book.view(Trust::Joining).coming, set(&[1, 2]));
    book.key_deleted(shard(1), 5);
    assert_eq!(book.start_claims(9), [shard(1)]);
    assert!(book.presumes());
    book.doubt();
    assert_eq!(book.start_claims(9), [shard(2)]);
    book.claim_held(shard(2), 6);
    book.doubt();
    assert!(book.start_claims(9).is_empty(), "it is known now");
    assert!(!book.presumes());
}

#[test]
fn a_deletion_that_overtakes_the_answer_is_not_lost() {
    for (freed_at, again) in [(21, true), (19, false)] {
        let mut book = ClaimBook::default();
        book.plan(1, &set(&[1]), nobody, free);
        book.start_yields(9);
        book.start_claims(9);
        book.key_deleted(shard(1), freed_at);
        book.claim_held(shard(1), 20);
        assert_eq!(!book.start_claims(9).is_empty(), again, "freed at {freed_at}, held at 20");
    }
    for (freed_at, ours) in [(21, false), (19, true)] {
        let mut book = ClaimBook::default();
        book.plan(1, &set(&[1]), nobody, free);
        book.start_yields(9);
        book.start_claims(9);
        book.key_deleted(shard(1), freed_at);
        book.claim_won(shard(1), 20);
        assert_eq!(!owned(&book).is_empty(), ours, "freed at {freed_at}, won at 20");
    }
}

#[test]
fn news_of_an_earlier_key_does_not_take_the_present_one() {
    let mut book = owning(&[1]);
    book.key_deleted(shard(1), 9);
    assert_eq!(owned(&book), [1]);
    book.key_deleted(shard(1), 11);
    assert!(owned(&book).is_empty());
    assert_eq!(parted(&book, 1).reason, LossReason::ClaimGone);
    assert_eq!(book.start_claims(9), [shard(1)]);
}

#[test]
fn a_claim_without_an_answer_is_found_by_reading_or_removed() {
    let mine = |created| ReadClaim { mine: true, created };
    let mut book = ClaimBook::default();
    book.plan(1, &set(&[1, 2]), nobody, free);
    book.start_yields(9);
    book.start_claims(9);
    book.requests_lost();
    book.plan(2, &set(&[1]), nobody, free);
    book.start_yields(9);
    book.relisted(&BTreeMap::from([(shard(1), mine(7)), (shard(2), mine(7))]));
    assert_eq!(owned(&book), [1]);
    assert_eq!(book.start_deletes(9), [shard(2)]);
}

#[test]
fn a_claim_that_may_still_arrive_is_deleted_when_the_plan_moves_on() {
    let mut book = ClaimBook::default();
    book.plan(1, &set(&[1]), nobody, free);
    book.start_yields(9);
    book.start_claims(9);
    book.requests_lost();
    book.relisted(&BTreeMap::new());
    book.plan(2, &set(&[]), nobody, free);
    book.start_yields(9);
    assert_eq!(book.start_deletes(9), [shard(1)]);
}

#[test]
fn a_claim_that_is_anothers_when_read_is_lost() {
    let mut book = owning(&[1, 2]);
    let theirs = ReadClaim { mine: false, created: 30 };
    let mine = ReadClaim { mine: true, created: 10 };
    book.relisted(&BTreeMap::from([(shard(1), theirs), (shard(2), mine)]));
    assert_eq!(owned(&book), [2]);
    assert_eq!(parted(&book, 1).reason, LossReason::ClaimGone);
    assert_eq!(book.view(Trust::Joining).coming, set(&[1]));
}

#[test]
fn a_lost_lease_loses_everything_at_once() {
    let mut book = owning(&[1, 2]);
    book.plan(2, &set(&[2]), nobody, free);
    book.start_yields(9);
    book.drop_all(&LossReason::LeaseLost);
    assert!(owned(&book).is_empty());
    assert_eq!(parted(&book, 2).reason, LossReason::LeaseLost);
    assert_eq!(book.view(Trust::Joining).unsettled, 0);
    book.confirmed(&parted(&book, 1));
    assert!(book.start_deletes(9).is_empty());
}

/// What etcd holds of one shard, and the book that must agree with it.
#[derive(Default)]
struct World {
    revision: i64,
    /// Created at, and whether it is ours.
    keys: BTreeMap<ShardId, (i64, bool)>,
    working: BTreeMap<ShardId, Lost>,
    book: ClaimBook,
}

#[derive(Clone, Debug)]
enum Step {
    Plan(BTreeSet<u16>),
    Claim,
    ClaimUnanswered,
    Delete,
    Confirm,
    OthersTake(u16),
    OthersLeave(u16),
    Relist,
}

impl World {
    /// The consumer: stops what is not owned any more, starts what is.
    fn consume(&mut self) {
        let view = self.book.view(Trust::Joining);
        for (&shard, &claim) in &view.owned {
            let lost = Lost { shard, reason: LossReason::ClaimGone, claim };
            self.working.insert(shard, lost);
        }
    }

    fn step(&mut self, step: &Step) {
        self.revision += 1;
        match step {
            Step::Plan(mine) => {
                let mine = mine.iter().copied().map(ShardId::new).collect();
                self.book.plan(1, &mine, nobody, free);
                self.book.start_yields(1);
            }
            Step::Claim => self.claim(true),
            Step::ClaimUnanswered => {
                self.claim(false);
                self.book.requests_lost();
            }
            Step::Delete => {
                for shard in self.book.start_deletes(9) {
                    if self.keys.get(&shard).is_some_and(|(_, mine)| *mine) {
                        assert!(!self.working.contains_key(&shard), "deleted while at work");
                        self.keys.remove(&shard);
                    }
                    self.book.deleted(shard);
                }
            }
            Step::Confirm => {
                self.book.start_yields(2);
                self.consume();
                let view = self.book.view(Trust::Joining);
                let stopped: Vec<Lost> = self
                    .working
                    .values()
                    .filter(|lost| view.owned.get(&lost.shard) != Some(&lost.claim))
                    .cloned()
                    .collect();
                for lost in stopped {
                    self.working.remove(&lost.shard);
                    self.book.confirmed(&lost);
                }
            }
            Step::OthersTake(n) => drop(self.keys.entry(shard(*n)).or_insert((self.revision, false))),
            Step::OthersLeave(n) => {
                if self.keys.get(&shard(*n)).is_some_and(|(_, mine)| !mine) {
                    self.keys.remove(&shard(*n));
                    self.book.key_deleted(shard(*n), self.revision);
                }
            }
            Step::Relist => {
                let keys = self.keys.iter().map(|(&s, &(created, mine))| (s, ReadClaim { mine, created }));
                let keys = keys.collect();
                self.book.requests_lost();
                self.book.relisted(&keys);
            }
        }
        self.consume();
    }

    fn claim(&mut self, answered: bool) {
        for shard in self.book.start_claims(9) {
            let (created, mine) = *self.keys.entry(shard).or_insert((self.revision, true));
            match (answered, mine) {
                (true, true) => self.book.claim_won(shard, created),
                (true, false) => self.book.claim_held(shard, self.revision),
                (false, _) => {}
            }
        }
    }
}

fn arb_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        prop::collection::btree_set(0..4_u16, 0..4).prop_map(Step::Plan),
        Just(Step::Claim),
        Just(Step::Claim),
        Just(Step::ClaimUnanswered),
        Just(Step::Delete),
        Just(Step::Confirm),
        (0..4_u16).prop_map(Step::OthersTake),
        (0..4_u16).prop_map(Step::OthersLeave),
        Just(Step::Relist),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn what_is_owned_is_ours_in_etcd_and_in_the_end_the_plan_is_followed(
        steps in prop::collection::vec(arb_step(), 1..60),
        last in prop::collection::btree_set(0..4_u16, 0..4),
    ) {
        let mut world = World::default();
        for step in &steps {
            world.step(step);
            for shard in world.book.view(Trust::Joining).owned.keys() {
                prop_assert!(world.keys.get(shard).is_some_and(|(_, mine)| *mine), "{shard} after {step:?}");
            }
        }
        world.step(&Step::Plan(last.clone()));
        for n in 0..4 {
            world.step(&Step::OthersLeave(n));
        }
        for _ in 0..4 {
            for step in [Step::Confirm, Step::Delete, Step::Claim] {
                world.step(&step);
            }
        }
        let ours: BTreeSet<u16> = world.keys.keys().map(|s| s.get()).collect();
        prop_assert_eq!(owned(&world.book).into_iter().collect::<BTreeSet<_>>(), last.clone());
        prop_assert_eq!(ours, last);
    }
}
