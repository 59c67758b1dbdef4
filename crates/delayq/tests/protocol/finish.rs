//! Ending messages by id, and counting calls, for gateways to protocols without receipts.

use delayq::admin::{Numbers, ReplayTerms};
use delayq::protocol::{Envelope, FinishOutcome, FinishWhich, Holder, Receipt, ReserveRequest, ShardId};
use delayq::{Message, Settled, State, Target, Topic};
use delayq_tests::deployment::Deployment;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

fn topic() -> Topic {
    Topic::new("ns/q").unwrap()
}

fn message(id: &str) -> Message {
    Message::new(topic(), "x").id(id).unwrap()
}

fn target(id: &str) -> Target {
    message(id).id.unwrap().into()
}

async fn finish(scene: &Deployment, which: FinishWhich, id: &str) -> FinishOutcome {
    scene.producer.finish_many(&topic(), which, &[target(id)]).await.remove(0).unwrap()
}

async fn reserved(scene: &Deployment, most: u16) -> Vec<Receipt> {
    let request = ReserveRequest { topics: vec![topic()], most, max_bytes: 0, lease: Some(HOUR) };
    let holder = Holder::new(scene.client.clone());
    let report = holder.reserve(&[(ShardId::new(0), request)]).await.remove(0).unwrap();
    report.messages.into_iter().map(|message| message.receipt).collect()
}

async fn in_every_state(scene: &Deployment) -> Receipt {
    scene.put([message("dead"), message("leased")]).await;
    let mut receipts = reserved(scene, 2).await;
    let holder = Holder::new(scene.client.clone());
    let buried = (receipts.remove(0), "broken".to_owned());
    assert_eq!(holder.bury(&[buried]).await.remove(0).unwrap(), Settled::Buried);
    scene.put([message("ready"), message("delayed").after(HOUR)]).await;
    receipts.remove(0)
}

async fn numbers(scene: &Deployment) -> Numbers {
    scene.admin.topic(&topic()).count().await.unwrap()
}

async fn is_sound(scene: &Deployment) {
    let audit = scene.admin.audit().run(|_| {}).await.unwrap();
    assert!(audit.findings.is_empty() && audit.drifts.is_empty(), "{audit:?}");
}

#[tokio::test]
async fn a_message_ends_by_its_id_in_any_state_and_its_receipt_settles_nothing_any_more() {
    let scene = Deployment::new(1).await;
    let receipt = in_every_state(&scene).await;
    for (id, outcome) in [
        ("dead", FinishOutcome::Purged),
        ("leased", FinishOutcome::Delivered),
        ("ready", FinishOutcome::Cancelled),
        ("delayed", FinishOutcome::Cancelled),
        ("nobody", FinishOutcome::Unknown),
    ] {
        assert_eq!(finish(&scene, FinishWhich::Any, id).await, outcome, "{id}");
    }
    let again = finish(&scene, FinishWhich::Any, "leased").await;
    assert!(matches!(again, FinishOutcome::Finished(State::Delivered, _)), "{again:?}");
    let acked = Holder::new(scene.client.clone()).ack(&[receipt]).await.remove(0).unwrap();
    assert_eq!(acked, Settled::LeaseLost);
    let Numbers { delayed, ready, leased, dead, delivered, cancelled, purged, .. } = numbers(&scene).await;
    assert_eq!((delayed, ready, leased, dead), (0, 0, 0, 0));
    assert_eq!((delivered, cancelled, purged), (1, 2, 1));
    is_sound(&scene).await;
}

#[tokio::test]
async fn a_dead_letter_that_was_replayed_meanwhile_does_not_end_with_the_dead() {
    let scene = Deployment::new(1).await;
    in_every_state(&scene).await;
    for (id, state) in [("leased", State::Leased), ("ready", State::Ready), ("delayed", State::Delayed)] {
        assert_eq!(finish(&scene, FinishWhich::Dead, id).await, FinishOutcome::Kept(state), "{id}");
    }
    assert_eq!(finish(&scene, FinishWhich::Dead, "dead").await, FinishOutcome::Purged);
    is_sound(&scene).await;
}

async fn stored(scene: &Deployment, id: &str) -> Envelope {
    scene.admin.topic(&topic()).get(&target(id)).await.unwrap().unwrap().envelope.unwrap()
}

#[tokio::test]
async fn a_replay_under_new_terms_gives_attempts_and_an_expiry_to_any_message() {
    let scene = Deployment::new(1).await;
    let now = scene.now().await.get();
    let expiring = |id: &str| message(id).expires(delayq::UnixMillis::new(now + 7_200_000));
    let long = "y".repeat(2000);
    let plain = Message::new(topic(), long.clone()).id("plain").unwrap();
    scene.put([plain.header("k", "v"), expiring("expiring"), expiring("endless").header("k", "v")]).await;
    let receipts = reserved(&scene, 3).await;
    let buried: Vec<_> = receipts.into_iter().map(|receipt| (receipt, String::new())).collect();
    for settled in Holder::new(scene.client.clone()).bury(&buried).await {
        assert_eq!(settled.unwrap(), Settled::Buried);
    }
    for (id, after) in [("plain", Some(HOUR)), ("expiring", Some(HOUR)), ("endless", None)] {
        let terms = ReplayTerms { max_attempts: 1, expires_after: after };
        let replayed = scene.admin.topic(&topic()).replay_renewed(&[target(id)], terms).await.unwrap();
        assert_eq!((replayed.replayed, replayed.kept()), (1, 0), "{id}");
        let envelope = stored(&scene, id).await;
        assert_eq!((envelope.state, envelope.attempt, envelope.max_attempts), (State::Ready, 0, 1), "{id}");
        let end = envelope.expires.unwrap();
        match after {
            Some(_) => assert!((now + 3_600_000..now + 3_700_000).contains(&end.get()), "{id}: {end}"),
            None => assert_eq!(end, delayq::UnixMillis::MAX, "it never expires"),
        }
    }
    let plain = stored(&scene, "plain").await;
    assert_eq!(plain.payload, long.as_bytes());
    assert_eq!(plain.headers, [("k".to_owned(), "v".to_owned())]);
    is_sound(&scene).await;
}

#[tokio::test]
async fn a_window_counts_from_its_first_call_and_none_of_another_name() {
    let scene = Deployment::new(1).await;
    let window = Duration::from_secs(600);
    for count in 1..=3 {
        assert_eq!(scene.admin.gateways().count_call("a", window).await.unwrap(), count);
    }
    scene.admin.gateways().take_back_call("a", window).await.unwrap();
    assert_eq!(scene.admin.gateways().count_call("a", window).await.unwrap(), 3);
    assert_eq!(scene.admin.gateways().count_call("b", window).await.unwrap(), 1);
    scene.admin.gateways().take_back_call("c", window).await.unwrap();
    assert_eq!(scene.admin.gateways().count_call("c", window).await.unwrap(), 1, "nothing falls below zero");
    is_sound(&scene).await;
}
