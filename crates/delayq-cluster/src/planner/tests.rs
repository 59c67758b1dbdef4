//! Properties of a plan, for any shards and members.

use super::*;
use delayq::protocol::ShardId;
use proptest::prelude::*;

fn member(n: usize) -> Candidate {
    Candidate {
        id: MemberId::from_text(&format!("m{n:04}")),
        name: format!("m{n:04}"),
        draining: false,
        hindered: ShardRanges::default(),
    }
}

fn members(count: usize) -> Vec<Candidate> {
    (0..count).map(member).collect()
}

fn leader() -> MemberId {
    MemberId::from_text("leader")
}

fn count(shards: usize) -> ShardCount {
    ShardCount::new(u16::try_from(shards).unwrap()).unwrap()
}

fn moved(before: &Plan, after: &Plan) -> usize {
    (0..before.shard_count().min(after.shard_count()))
        .map(|s| ShardId::new(s as u16))
        .filter(|&s| before.owner_of(s).map(|m| &m.id) != after.owner_of(s).map(|m| &m.id))
        .count()
}

fn fewest_moves(kept: &[usize], total: usize) -> usize {
    let (low, ceilings) = (total / kept.len(), total % kept.len());
    let mut counts = kept.to_vec();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    counts.iter().enumerate().map(|(i, n)| n.saturating_sub(low + usize::from(i < ceilings))).sum()
}

fn arb_candidates() -> impl Strategy<Value = Vec<Candidate>> {
    prop::collection::btree_map(0..60_usize, prop::bool::weighted(0.2), 1..30)
        .prop_map(|map| map.into_iter().map(|(n, draining)| Candidate { draining, ..member(n) }).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn every_shard_has_one_eligible_owner(shards in 1..300_usize, candidates in arb_candidates()) {
        let plan = compute(count(shards), &candidates, None, &leader());
        prop_assert_eq!(plan.shard_count(), shards);
        let anyone = candidates.iter().any(|c| !c.draining);
        let mut seen = 0;
        for candidate in &candidates {
            let given = plan.shards_of(&candidate.id).len();
            prop_assert!(given == 0 || !candidate.draining);
            seen += given;
        }
        prop_assert_eq!(seen, if anyone { shards } else { 0 });
    }

    #[test]
    fn counts_differ_by_one_and_the_fewest_shards_move(
        shards in 1..600_usize,
        before in 1..60_usize,
        gone in prop::collection::btree_set(0..60_usize, 0..20),
        new in 0..20_usize,
    ) {
        balance_with_the_fewest_moves(shards, before, &gone, new)?;
    }

    #[test]
    fn the_order_of_the_members_does_not_matter(
        shards in 1..300_usize,
        candidates in arb_candidates().prop_shuffle(),
        before in arb_candidates(),
    ) {
        let first = compute(count(shards), &before, None, &leader());
        let mut sorted = candidates.clone();
        sorted.sort_by(|a, b| a.id.cmp(&b.id));
        prop_assert_eq!(
            compute(count(shards), &candidates, Some(&first), &leader()),
            compute(count(shards), &sorted, Some(&first), &leader())
        );
    }

    #[test]
    fn a_plan_that_holds_is_not_written_again(shards in 1..300_usize, candidates in arb_candidates()) {
        let first = compute(count(shards), &candidates, None, &leader());
        let again = compute(count(shards), &candidates, Some(&first), &MemberId::from_text("other"));
        prop_assert_eq!(first, again);
    }
}

proptest! {
    // A case plans thousands of shards twice.
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn a_thousand_members_balance_with_the_fewest_moves(
        shards in prop_oneof![1..1200_usize, 1200..=4096_usize],
        before in 900..1200_usize,
        gone in prop::collection::btree_set(0..1200_usize, 0..400),
        new in 0..300_usize,
    ) {
        balance_with_the_fewest_moves(shards, before, &gone, new)?;
    }

    #[test]
    fn of_a_thousand_members_the_fit_alone_are_given_shards(
        shards in 1..=4096_usize,
        unfit in prop::collection::btree_map(0..1000_usize, any::<bool>(), 0..999),
    ) {
        let make = |n: usize| Candidate {
            draining: unfit.get(&n) == Some(&true),
            hindered: if unfit.get(&n) == Some(&false) { first(shards) } else { ShardRanges::default() },
            ..member(n)
        };
        let candidates: Vec<Candidate> = (0..1000).map(make).collect();
        let plan = compute(count(shards), &candidates, None, &leader());
        let given = |candidate: &Candidate| plan.shards_of(&candidate.id).len();
        prop_assert_eq!(candidates.iter().map(given).sum::<usize>(), shards);
        prop_assert!(candidates.iter().all(|c| given(c) == 0 || !c.draining && c.hindered.is_empty()));
        prop_assert_eq!(&compute(count(shards), &candidates, Some(&plan), &leader()), &plan);
    }

    #[test]
    fn a_shard_is_given_to_a_member_that_reaches_it_if_there_is_one(
        shards in 1..200_usize,
        hindered in prop::collection::vec(prop::collection::btree_set(0..200_u16, 0..150), 1..12),
    ) {
        let candidates: Vec<Candidate> =
            hindered.iter().enumerate().map(|(n, shards)| without(member(n), shards)).collect();
        let before = compute(count(shards), &members(hindered.len()), None, &leader());
        let plan = compute(count(shards), &candidates, Some(&before), &leader());
        for shard in 0..shards as u16 {
            let owner = |plan: &Plan| plan.owner_of(ShardId::new(shard)).unwrap().id.clone();
            let at = candidates.iter().position(|candidate| candidate.id == owner(&plan)).unwrap();
            let reaches = |hindered: &BTreeSet<u16>| !hindered.contains(&shard);
            prop_assert!(reaches(&hindered[at]) || !hindered.iter().any(reaches), "shard {}", shard);
            let gained = owner(&plan) != owner(&before);
            let reaches_all = |hindered: &BTreeSet<u16>| hindered.iter().all(|&shard| usize::from(shard) >= shards);
            prop_assert!(!gained || reaches_all(&hindered[at]) || !hindered.iter().any(reaches_all), "shard {}", shard);
        }
        prop_assert_eq!(&compute(count(shards), &candidates, Some(&plan), &leader()), &plan);
    }
}

fn first(shards: usize) -> ShardRanges {
    (0..shards as u16).map(ShardId::new).collect()
}

fn without(member: Candidate, shards: &BTreeSet<u16>) -> Candidate {
    Candidate { hindered: shards.iter().copied().map(ShardId::new).collect(), ..member }
}

fn balance_with_the_fewest_moves(
    shards: usize,
    before: usize,
    gone: &std::collections::BTreeSet<usize>,
    new: usize,
) -> Result<(), TestCaseError> {
    let shard_count = count(shards);
    let first = compute(shard_count, &members(before), None, &leader());
    let mut after: Vec<Candidate> =
        members(before).into_iter().enumerate().filter(|(n, _)| !gone.contains(n)).map(|(_, m)| m).collect();
    after.extend((0..new).map(|n| member(2000 + n)));
    prop_assume!(!after.is_empty());
    let plan = compute(shard_count, &after, Some(&first), &leader());
    let counts: Vec<usize> = after.iter().map(|m| plan.shards_of(&m.id).len()).collect();
    prop_assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1, "{counts:?}");
    let kept: Vec<usize> = after.iter().map(|m| first.shards_of(&m.id).len()).collect();
    let homeless = shards - kept.iter().sum::<usize>();
    prop_assert_eq!(moved(&first, &plan), homeless + fewest_moves(&kept, shards));
    Ok(())
}

#[test]
fn a_member_that_comes_back_gets_its_shards_back() {
    let thirty = count(30);
    let before = members(3);
    let first = compute(thirty, &before, None, &leader());
    let mut after = before.clone();
    after[1].id = MemberId::from_text("m0001-second-life");
    let plan = compute(thirty, &after, Some(&first), &leader());
    assert_eq!(plan.shards_of(&after[1].id), first.shards_of(&before[1].id));
    assert_eq!(plan.shards_of(&after[0].id), first.shards_of(&before[0].id));
    assert_eq!(plan.version, 2);
}

#[test]
fn a_hindered_member_gets_nothing_while_another_can_and_keeps_what_it_has_while_none_can() {
    let thirty = count(30);
    let before = members(3);
    let first = compute(thirty, &before, None, &leader());
    let hindered = |who: &[usize]| {
        let mut after = before.clone();
        who.iter().for_each(|&n| after[n].hindered = self::first(30));
        compute(thirty, &after, Some(&first), &leader())
    };
    let without_one = hindered(&[1]);
    assert_eq!(without_one.shards_of(&before[1].id).len(), 0);
    assert_eq!(moved(&first, &without_one), 10, "only its shards move");
    assert_eq!(hindered(&[0, 1]).shards_of(&before[2].id).len(), 30);
    assert_eq!(moved(&first, &hindered(&[0, 1, 2])), 0);
    let mut draining = before.clone();
    (draining[0].hindered, draining[1].hindered) = (self::first(30), self::first(30));
    draining[2].draining = true;
    let plan = compute(thirty, &draining, Some(&first), &leader());
    assert_eq!(plan.shards_of(&before[0].id).len(), 15, "who leaves is no other that can");
}

#[test]
fn a_member_cut_off_from_some_shards_loses_these_alone_and_gets_as_many_as_the_others_when_it_reaches_them() {
    let before = members(3);
    let first = compute(count(30), &before, None, &leader());
    let mine = first.shards_of(&before[0].id);
    let unreached: BTreeSet<u16> = mine.iter().map(|shard| shard.get()).take(6).chain([28, 29]).collect();
    let mut cut = before.clone();
    cut[0] = without(cut[0].clone(), &unreached);
    let during = compute(count(30), &cut, Some(&first), &leader());
    assert_eq!(moved(&first, &during), 6, "only what the member cannot reach moves");
    assert_eq!(during.shards_of(&before[0].id).len(), 4);
    let after = compute(count(30), &before, Some(&during), &leader());
    assert_eq!((moved(&during, &after), after.shards_of(&before[0].id).len()), (6, 10));
}

#[test]
fn a_namesake_of_a_living_member_inherits_nothing() {
    let thirty = count(30);
    let first = compute(thirty, &members(3), None, &leader());
    let mut after = members(3);
    after.push(Candidate { id: MemberId::from_text("m0001-twin"), ..member(1) });
    let plan = compute(thirty, &after, Some(&first), &leader());
    assert!(moved(&first, &plan) <= 8, "{}", moved(&first, &plan));
    assert!(plan.shards_of(&after[1].id).is_subset(&first.shards_of(&after[1].id)));
}

#[test]
fn a_new_shard_count_moves_nothing_that_had_a_place() {
    let first = compute(count(64), &members(4), None, &leader());
    let plan = compute(count(128), &members(4), Some(&first), &leader());
    assert_eq!(moved(&first, &plan), 0);
    assert_eq!(plan.shards_of(&member(0).id).len(), 32);
}

#[test]
fn a_thousand_members_and_4096_shards_are_planned_quickly() {
    let all = count(4096);
    let first = compute(all, &members(1000), None, &leader());
    let mut after = members(1000);
    after.drain(100..200);
    let started = std::time::Instant::now();
    let plan = compute(all, &after, Some(&first), &leader());
    // Allows for unoptimised builds on a busy machine; an optimised build takes about a millisecond.
    assert!(started.elapsed() < std::time::Duration::from_secs(1), "{:?}", started.elapsed());
    assert_eq!(plan.members().len(), 900);
}
