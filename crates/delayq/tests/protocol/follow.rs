//! The next message, put by the ack of a leased message: a script does both or neither.

use crate::action::{Action, Item, hex};
use crate::bare_shard::NOW;
use crate::lab::{Lab, item};
use crate::snapshot::lossy;
use delayq::protocol::Verb;

/// Leases a message; returns the receipt.
async fn leased(lab: &mut Lab, id: &str) -> Vec<u8> {
    assert_eq!(lab.put("t", &[item(id, NOW)]).await, ["ready"]);
    lab.reserve("t").await.remove(0)
}

fn next(id: &str, receipt: &[u8]) -> Item {
    Item { ack: Some(receipt.to_vec()), content: 1, ..item(id, "+5000") }
}

/// Returns ids and states of all messages, and the number of leases.
async fn shard(lab: &mut Lab) -> (Vec<(String, u8)>, usize) {
    let shard = lab.shard.snapshot().await;
    let bodies = shard.bodies.iter().map(|((_, id), body)| (lossy(id), body[1])).collect();
    (bodies, shard.index("leases").len())
}

const PENDING: u8 = 1;
const LEASED: u8 = 3;
const DELIVERED: u8 = 5;

#[tokio::test]
async fn the_next_message_is_put_by_the_ack_and_a_repeat_finds_it() {
    let mut lab = Lab::new().await;
    let receipt = leased(&mut lab, "one").await;
    assert_eq!(lab.put("t", &[next("two", &receipt)]).await, ["stored"]);
    let there = (vec![("one".to_owned(), DELIVERED), ("two".to_owned(), PENDING)], 0);
    assert_eq!(shard(&mut lab).await, there);
    lab.at(100);
    assert_eq!(lab.put("t", &[next("two", &receipt)]).await, [format!("exists delayed {}", NOW + 5000)]);
    assert_eq!(lab.put("t", &[next("three", &receipt)]).await, ["expired"]);
    assert_eq!(shard(&mut lab).await, there, "nothing was changed");
}

#[tokio::test]
async fn the_next_message_takes_the_place_of_the_leased_one_under_its_id() {
    let mut lab = Lab::new().await;
    let receipt = leased(&mut lab, "poll").await;
    for _ in 0..2 {
        let word = lab.put("t", &[next("poll", &receipt)]).await.remove(0);
        assert!(["stored".to_owned(), format!("exists delayed {}", NOW + 5000)].contains(&word), "{word}");
        assert_eq!(shard(&mut lab).await, (vec![("poll".to_owned(), PENDING)], 0));
    }
    lab.at(5000);
    lab.pump().await;
    let again = lab.reserve("t").await.remove(0);
    // The next message was leased meanwhile, so the first receipt is too late.
    assert_eq!(lab.put("t", &[next("poll", &receipt)]).await, ["expired"]);
    assert_eq!(lab.words(Action::Ack { receipts: vec![again] }).await, ["delivered"]);
    let stats = lab.shard.snapshot().await;
    assert_eq!((stats.number("stats", "accepted:1"), stats.number("stats", "delivered:1")), (2, 2));
}

#[tokio::test]
async fn without_its_lease_an_ack_puts_nothing() {
    let mut lab = Lab::new().await;
    let receipt = leased(&mut lab, "one").await;
    lab.at(2000);
    lab.pump().await;
    for id in ["two", "one"] {
        assert_eq!(lab.put("t", &[next(id, &receipt)]).await, ["expired"]);
        let found = Item { content: 0, ..next(id, &receipt) };
        assert_eq!(
            lab.put("t", &[found]).await,
            ["expired"],
            "{id}: it was delivered, so it is not the next one"
        );
    }
    assert_eq!(shard(&mut lab).await, (vec![("one".to_owned(), PENDING)], 0));
}

#[tokio::test]
async fn a_message_that_is_cancelled_while_leased_has_no_next_one() {
    let mut lab = Lab::new().await;
    for id in ["two", "one"] {
        let receipt = leased(&mut lab, "one").await;
        lab.words(Action::Cancel { topic: "t".into(), ids: vec![b"one".to_vec()] }).await;
        assert_eq!(lab.put("t", &[next(id, &receipt)]).await, ["cancelled"]);
        assert_eq!(shard(&mut lab).await, (vec![("one".to_owned(), DELIVERED)], 0));
        assert_eq!(lab.put("t", &[next(id, &receipt)]).await, ["expired"], "nothing was put");
        lab.at(70_000);
        lab.pump().await;
    }
}

#[tokio::test]
async fn a_next_message_that_cannot_be_stored_leaves_the_lease() {
    let mut lab = Lab::new().await;
    assert_eq!(lab.put("t", &[item("two", NOW + 9000)]).await, ["stored"]);
    let receipt = leased(&mut lab, "one").await;
    let held = (vec![("one".to_owned(), LEASED), ("two".to_owned(), PENDING)], 1);
    let conflict = format!("conflict delayed {}", NOW + 9000);
    assert_eq!(lab.put("t", &[next("two", &receipt)]).await, [conflict]);
    assert_eq!(shard(&mut lab).await, held);
    let expired = Item { expires: Some(NOW + 1), ..next("one", &receipt) };
    assert_eq!(lab.put("t", &[expired]).await, ["refused expiry not after the due time"]);
    assert_eq!(shard(&mut lab).await, held);
    assert_eq!(lab.words(Action::Ack { receipts: vec![receipt] }).await, ["delivered"]);
}

#[tokio::test]
async fn an_option_that_is_given_twice_or_beside_an_ack_is_refused_by_name() {
    let mut lab = Lab::new().await;
    let receipt = hex(&leased(&mut lab, "one").await);
    let (hash, record) = ("0123456789abcdef", "00000000000000ff");
    let envelope = item("two", 0).envelope().encode();
    for (options, why) in [
        (format!("replace ack={receipt}"), "option ack with another"),
        (format!("earlier ack={receipt}"), "option ack with another"),
        (format!("tried={NOW} ack={receipt}"), "option ack with another"),
        (format!("record={record} ack={receipt}"), "option ack with another"),
        (format!("ack={receipt} ack={receipt}"), &*format!("option ack={receipt}")),
        ("ack=123".to_owned(), "option ack=123"),
        ("ack=".to_owned(), "option ack="),
        (format!("replace expected={NOW} expected=7"), "option expected=7"),
        (format!("replace hash={hash} hash={hash}"), &*format!("option hash={hash}")),
        (format!("tried={NOW} tried=8"), "option tried=8"),
        (format!("record={record} record={record}"), &*format!("option record={record}")),
    ] {
        let args = [b"t".to_vec(), b"two".to_vec(), b"+1".to_vec(), options.clone().into(), envelope.clone()];
        let answer = lab.shard.call(Verb::Put, &args).await.unwrap();
        assert_eq!(lossy(&answer[1]), format!("refused {why}"), "{options}");
    }
    assert_eq!(shard(&mut lab).await, (vec![("one".to_owned(), LEASED)], 1));
}
