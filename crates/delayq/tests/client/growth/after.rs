//! Messages put before a growth, and found afterwards.

use crate::growth::grown::{FAR, Grown, group_of};
use delayq::{
    CancelOutcome, Due, Group, MessageId, Producer, PutOutcome, Reschedule, RescheduleOutcome, Shift, State,
    Target,
};
use std::collections::BTreeSet;
use std::time::Duration;

const MANY: u32 = 300;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_put_of_a_message_from_before_a_growth_answers_exists() {
    let grown = Grown::new().await;
    let old = grown.party(4);
    old.put_all((0..MANY).map(|n| grown.message(n))).await;
    grown.grow(8).await;
    let of_eight = grown.party(8);
    of_eight.put_all((MANY..2 * MANY).map(|n| grown.message(n))).await;
    grown.grow(12).await;
    // Clients that know neither growth, that know the first, and with each configured count.
    for party in [&old, &of_eight, &grown.party(4), &grown.party(8), &grown.party(12)] {
        let outcomes = party.put_all((0..2 * MANY).map(|n| grown.message(n))).await;
        for (n, outcome) in outcomes.iter().enumerate() {
            assert!(matches!(outcome, PutOutcome::Exists(State::Delayed, _)), "order-{n}: {outcome:?}");
        }
        assert_eq!(party.client.shards().get(), 12);
    }
    for n in [0, 1, MANY, MANY + 1] {
        let other = grown.message(n).header("other", "content");
        assert!(matches!(old.put(other).await, PutOutcome::Conflict(State::Delayed, _)));
    }
    let numbers = grown.admin().topic(&grown.topic).count().await.unwrap();
    assert_eq!((numbers.accepted, numbers.delayed), (u64::from(2 * MANY), u64::from(2 * MANY)));
    assert!(numbers.balances());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_is_replaced_in_the_place_where_it_is() {
    let grown = Grown::new().await;
    let party = grown.party(4);
    let mut before = Vec::new();
    for n in 0..40 {
        before.push(party.producer.put(grown.message(n)).await.unwrap().reference);
    }
    grown.grow(8).await;
    for (n, reference) in before.into_iter().enumerate() {
        let other = grown.message(n as u32).header("other", "content").replace();
        let put = party.producer.put(other).await.unwrap();
        assert!(matches!(put.outcome, PutOutcome::Stored(_)), "{put:?}");
        assert_eq!(put.reference, reference);
    }
    let numbers = grown.admin().topic(&grown.topic).count().await.unwrap();
    assert_eq!((numbers.delayed, numbers.replaced), (40, 40));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_from_before_a_growth_is_found_moved_and_cancelled_and_stays_so() {
    let grown = Grown::new().await;
    let party = grown.party(4);
    party.put_all((0..MANY).map(|n| grown.message(n))).await;
    grown.grow(8).await;
    grown.grow(12).await;
    let targets: Vec<Target> = (0..MANY).map(|n| grown.target(n)).collect();
    for target in targets.iter().take(40) {
        let found = grown.admin().topic(&grown.topic).get(target).await.unwrap().unwrap();
        assert_eq!(found.id, target.id);
    }
    let later = Reschedule::To(Due::After(2 * FAR));
    let changes: Vec<_> = targets.iter().map(|target| (target.clone(), later)).collect();
    for outcome in party.producer.reschedule_many(&grown.topic, &changes).await {
        assert!(matches!(outcome, Ok(RescheduleOutcome::Moved { ready: false, .. })), "{outcome:?}");
    }
    for _ in 0..2 {
        for outcome in party.producer.cancel_many(&grown.topic, &targets).await {
            assert_eq!(outcome.unwrap(), CancelOutcome::Cancelled);
        }
    }
    for outcome in party.put_all((0..MANY).map(|n| grown.message(n))).await {
        assert!(matches!(outcome, PutOutcome::Exists(State::Cancelled, _)), "{outcome:?}");
    }
    let never = Target::from(MessageId::own("never").unwrap());
    assert_eq!(party.producer.cancel(&grown.topic, &never).await.unwrap(), CancelOutcome::Unknown);
    assert_eq!(grown.admin().topic(&grown.topic).get(&never).await.unwrap(), None);
    let numbers = grown.admin().topic(&grown.topic).count().await.unwrap();
    assert_eq!((numbers.cancelled, numbers.pending()), (u64::from(MANY), 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_is_listed_moved_and_cancelled_in_all_its_places() {
    let grown = Grown::new().await;
    let party = grown.party(4);
    party.put_all((0..MANY).map(|n| grown.message(n))).await;
    grown.grow(12).await;
    party.put_all((MANY..2 * MANY).map(|n| grown.message(n))).await;
    for user in [1, 3, 5, 7, 9, 11] {
        let group = Group::new(group_of(user)).unwrap();
        let wanted: BTreeSet<MessageId> =
            (0..2 * MANY).filter(|n| n % 40 == user).map(|n| grown.target(n).id).collect();
        let has = wanted.len() as u64;
        let (all, total) = grown.admin().list_group(&group, usize::MAX).await.unwrap();
        assert_eq!(total, has);
        let dues: Vec<_> = all.iter().map(|listed| listed.envelope.as_ref().unwrap().due).collect();
        let (first, _) = grown.admin().list_group(&group, 4).await.unwrap();
        assert_eq!(first, all[..4]);
        assert_eq!(all.into_iter().map(|listed| listed.id).collect::<BTreeSet<_>>(), wanted);
        assert!(dues.is_sorted(), "{dues:?}");
        for (round, moved) in [(1, has), (2, 0)] {
            let tally = party
                .producer
                .reschedule_group(&group, Shift::Later(Duration::from_secs(60)), "token")
                .await
                .unwrap();
            assert_eq!((tally.changed, tally.passed, tally.busy), (moved, 0, false), "round {round}");
        }
        assert_eq!(party.producer.cancel_group(&group).await.unwrap().changed, has);
        assert_eq!(grown.admin().list_group(&group, 10).await.unwrap().1, 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_generated_id_stays_its_own_address() {
    let grown = Grown::new().await;
    let party = grown.party(4);
    let group = Group::new("user-5").unwrap();
    let message = |n: u32| {
        let message = delayq::Message::new(grown.topic.clone(), format!("{n}")).after(FAR);
        if n.is_multiple_of(2) { message } else { message.with_group(group.clone()) }
    };
    let mut put = Vec::new();
    for n in 0..20 {
        put.push((n, party.producer.put(message(n)).await.unwrap().reference));
    }
    grown.grow(12).await;
    for (n, reference) in put {
        let again = party.producer.put(message(n).with_id(reference.id.clone())).await.unwrap();
        assert!(matches!(again.outcome, PutOutcome::Exists(State::Delayed, _)), "{again:?}");
        assert_eq!(again.reference, reference);
        let cancelled = party.producer.cancel(&grown.topic, &reference.into()).await.unwrap();
        assert_eq!(cancelled, CancelOutcome::Cancelled);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_from_before_a_growth_come_back_by_their_ids() {
    let grown = Grown::new().await;
    let party = grown.party(4);
    let mut consumer =
        delayq::Consumer::start(party.client.clone(), delayq::ConsumerOptions::new([grown.topic.clone()]))
            .unwrap();
    party.put_all((0..20).map(|n| grown.message(n).after(Duration::ZERO))).await;
    for _ in 0..20 {
        consumer.next().await.unwrap().bury("broken").await.unwrap();
    }
    consumer.stop().await;
    grown.grow(8).await;
    let targets: Vec<Target> = (0..20).map(|n| grown.target(n)).collect();
    let replayed = grown.admin().topic(&grown.topic).replay_ids(&targets, Duration::ZERO).await.unwrap();
    assert_eq!((replayed.replayed, replayed.kept()), (20, 0));
    assert_eq!(grown.admin().topic(&grown.topic).count().await.unwrap().ready, 20);
}

/// Many concurrent callers, some without knowledge of the growth, put the same ids meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_the_puts_of_one_id_during_a_growth_one_is_stored() {
    let grown = Grown::new().await;
    for round in 0..6 {
        let ids = round * 1000..round * 1000 + 100;
        let parties: Vec<_> = (0..6).map(|_| grown.party(4)).collect();
        let put = |producer: &Producer| {
            let (producer, messages) =
                (producer.clone(), ids.clone().map(|n| grown.message(n)).collect::<Vec<_>>());
            tokio::spawn(async move {
                let mut stored = BTreeSet::new();
                for message in messages {
                    let id = message.id.as_ref().unwrap().clone();
                    match producer.put(message).await.unwrap().outcome {
                        PutOutcome::Stored(_) => assert!(stored.insert(id)),
                        PutOutcome::Exists(State::Delayed, _) => {}
                        other => panic!("{id}: {other:?}"),
                    }
                }
                stored
            })
        };
        let tasks: Vec<_> = parties.iter().map(|party| put(&party.producer)).collect();
        grown.grow(4 + 3 * (round as u16 + 1)).await;
        let mut all = BTreeSet::new();
        for task in tasks {
            for id in task.await.unwrap() {
                assert!(all.insert(id.clone()), "{id} was stored twice");
            }
        }
        assert_eq!(all.len(), 100);
    }
    let numbers = grown.admin().topic(&grown.topic).count().await.unwrap();
    assert_eq!((numbers.accepted, numbers.delayed), (600, 600));
}
