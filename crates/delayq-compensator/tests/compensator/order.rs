//! Writes of one message are carried out in the order in which they were made, an outage in between or not.

use super::{FAR, Host, drain, message, target, topic};
use delayq::{
    Admin, CancelOutcome, Due, Error, Fate, Group, Message, Producer, PutOutcome, Reschedule, UnixMillis,
};

/// A write, by name and number.
#[derive(Clone, Copy, Debug)]
enum Write {
    Put,
    Replace,
    Cancel,
    Reschedule,
}

/// One write of message `id`, told apart from the others by `n`.
async fn write(producer: &Producer, write: Write, id: &str, n: u64) {
    let due = UnixMillis::new(FAR.get() + n);
    match write {
        Write::Put => drop(producer.put(message(id).at(due)).await.unwrap()),
        Write::Replace => {
            let message = Message::new(topic(), format!("body {n}")).id(id).unwrap().at(due).replace();
            producer.put(message).await.unwrap();
        }
        Write::Cancel => drop(producer.cancel(&topic(), &target(id)).await.unwrap()),
        Write::Reschedule => {
            let change = Reschedule::To(Due::At(due));
            producer.reschedule(&topic(), &target(id), change).await.unwrap();
        }
    }
}

/// Writes of four messages, in an order that is the same each time and follows no pattern.
fn writes() -> impl Iterator<Item = (Write, String, u64)> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    (0..120).map(move |n| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let write =
            [Write::Put, Write::Replace, Write::Cancel, Write::Reschedule][(state >> 33) as usize % 4];
        (write, format!("m{}", (state >> 40) % 4), n)
    })
}

/// What is known of the four messages.
async fn known(host: &Host) -> Vec<String> {
    let admin = Admin::new(host.deployment.client.clone());
    let mut known = Vec::new();
    for id in 0..4 {
        let found = admin.get(&topic(), &target(&format!("m{id}"))).await.unwrap();
        known.push(found.map_or_else(String::new, |found| {
            let kept = found.envelope.unwrap();
            format!("{:?} {:?} {:?}", kept.state, kept.due, kept.payload)
        }));
    }
    known
}

#[tokio::test]
async fn no_write_overtakes_an_older_one_that_waits_in_the_spool() {
    let calm = Host::start().await;
    for (kind, id, n) in writes() {
        write(&calm.producer, kind, &id, n).await;
    }

    let mut host = Host::start().await;
    let mut resubmitter = host.resubmitter();
    for (kind, id, n) in writes() {
        match n % 40 {
            10 => drop(host.deployment.server.kill().await),
            20 => host.deployment.server.resume().await,
            // Some are resubmitted, those behind them wait on.
            30 => drop(drain(&mut resubmitter).await),
            _ => {}
        }
        write(&host.producer, kind, &id, n).await;
    }
    drain(&mut resubmitter).await;
    assert_eq!(known(&host).await, known(&calm).await);
    let stats = resubmitter.stats().await.unwrap();
    // Ten writes of each outage, and those that followed them.
    assert!(stats.spooled > 30 && stats.waiting == 0 && stats.balances(), "{stats:?}");
}

#[tokio::test]
async fn a_group_is_not_cancelled_before_the_put_that_waits_in_the_spool() {
    let mut host = Host::start().await;
    let group = Group::new("customer-7").unwrap();
    let message = message("a").group("customer-7").unwrap();
    host.deployment.server.kill().await;
    assert_eq!(host.put(message.clone()).await, PutOutcome::Spooled);
    host.deployment.server.resume().await;
    host.is_back().await;
    let refused = host.producer.cancel_group(&group).await.unwrap_err();
    assert!(matches!(&refused, Error::Spool { outage: None, .. }), "{refused}");
    assert!(refused.fate() == Fate::NotApplied && refused.to_string().contains("customer-7"), "{refused}");
    let other = Group::new("customer-8").unwrap();
    assert_eq!(host.producer.cancel_group(&other).await.unwrap().changed, 0);
    drain(&mut host.resubmitter()).await;
    assert_eq!(host.producer.cancel_group(&group).await.unwrap().changed, 1);
    let target = delayq::Target { group: Some(group), ..target("a") };
    let again = host.producer.cancel(&topic(), &target).await.unwrap();
    assert!(!matches!(again, CancelOutcome::Spooled | CancelOutcome::Unknown), "{again:?}");
}
