//! The history of a topic: each kind of event, the bounds, the end.

use crate::action::{Action, GiveBack, Item, Purge, Reserve};
use crate::bare_shard::NOW;
use crate::lab::{Lab, in_g, item};
use crate::snapshot::lossy;
use delayq::protocol::Verb;

const DAY: u64 = 24 * 3_600_000;

// === impl Lab ===

impl Lab {
    async fn with_history(most: &str) -> Self {
        let mut lab = Self::new().await;
        lab.run(Action::configure("t", "history", most)).await.unwrap();
        lab
    }

    async fn told(&mut self, id: &str) -> Vec<(u64, String)> {
        let answer = self.shard.call(Verb::History, &[b"t".as_slice(), id.as_bytes(), b""]).await.unwrap();
        let event = |event: &[Vec<u8>]| (lossy(&event[0]).parse::<u64>().unwrap() - NOW, lossy(&event[1]));
        answer[4..].chunks(2).map(event).collect()
    }

    async fn told_words(&mut self, id: &str) -> Vec<String> {
        let word = |(_, what): (u64, String)| what.split(' ').next().unwrap_or_default().to_owned();
        self.told(id).await.into_iter().map(word).collect()
    }

    async fn reserve_one(&mut self) -> Vec<u8> {
        self.reserve("t").await.remove(0)
    }

    async fn release(&mut self, delay: u64, keep: bool) -> Vec<String> {
        let receipt = self.reserve_one().await;
        self.words(Action::Release { all: vec![GiveBack { receipt, delay: Some(delay), keep }] }).await
    }
}

fn ids(id: &str) -> Vec<Vec<u8>> {
    vec![id.as_bytes().to_vec()]
}

fn text(events: &[(u64, String)]) -> Vec<(u64, &str)> {
    events.iter().map(|(at, what)| (*at, what.as_str())).collect()
}

#[tokio::test]
async fn a_history_tells_put_reschedule_ready_lease_failure_release_and_delivery_with_their_times() {
    let mut lab = Lab::with_history("1000").await;
    lab.put("t", &[item("a", NOW + 5000)]).await;
    lab.at(1000);
    let changes = vec![(b"a".to_vec(), (NOW + 2000).to_string(), None)];
    lab.words(Action::Reschedule { topic: "t".into(), changes }).await;
    lab.at(2000);
    lab.pump().await;
    lab.at(2001);
    let reserve = [b"10".as_slice(), b"0", b"1000", b"t", b"by=worker@host:7"];
    let receipt = lab.shard.call(Verb::Reserve, &reserve).await.unwrap()[10].clone();
    lab.at(2002);
    let all = vec![GiveBack { receipt, delay: Some(0), keep: false }];
    assert_eq!(lab.words(Action::Release { all }).await, [format!("ready {}", NOW + 2002)]);
    lab.at(2003);
    assert_eq!(lab.release(500, true).await, [format!("delayed {}", NOW + 2503)]);
    lab.at(2503);
    lab.pump().await;
    let receipt = lab.reserve_one().await;
    lab.at(2600);
    lab.words(Action::Ack { receipts: vec![receipt] }).await;
    let told = lab.told("a").await;
    let wanted = [
        (0, format!("put {} stored", NOW + 5000)),
        (1000, format!("rescheduled {} {} delayed", NOW + 5000, NOW + 2000)),
        (2000, "ready".into()),
        (2001, format!("leased 1 {} worker@host:7", NOW + 3001)),
        (2002, format!("failed {} ready it would not", NOW + 2002)),
        (2003, format!("leased 2 {} ", NOW + 3003)),
        (2003, format!("released {} delayed it would not", NOW + 2503)),
        (2503, "ready".into()),
        (2503, format!("leased 2 {} ", NOW + 3503)),
        (2600, "delivered".into()),
    ];
    assert_eq!(text(&told), text(&wanted));
}

#[tokio::test]
async fn a_history_tells_cancels_replacements_leases_that_ran_out_deaths_replays_purges_and_expiries() {
    let mut lab = Lab::with_history("1000").await;
    let replacing = Item { replace: true, content: 1, ..item("b", NOW) };
    lab.put("t", &[item("b", NOW + 5000)]).await;
    lab.put("t", &[replacing]).await;
    let receipt = lab.reserve_one().await;
    lab.words(Action::Cancel { topic: "t".into(), ids: ids("b") }).await;
    lab.words(Action::Cancel { topic: "t".into(), ids: ids("b") }).await;
    lab.words(Action::Release { all: vec![GiveBack { receipt, delay: None, keep: false }] }).await;
    let wanted = ["put", "replaced", "put", "leased", "cancel_requested", "cancelled"];
    assert_eq!(lab.told_words("b").await, wanted);

    // `c` dies by bury, the other message when the lease of its last attempt runs out.
    lab.put("t", &[item("c", NOW)]).await;
    let receipt = lab.reserve_one().await;
    lab.words(Action::Bury { receipts: vec![receipt] }).await;
    lab.words(Action::Replay { topic: "t".into(), delay: 0, ids: ids("c") }).await;
    let receipt = lab.reserve_one().await;
    lab.words(Action::Ack { receipts: vec![receipt] }).await;
    let wanted = ["put", "leased", "buried", "replayed", "leased", "delivered"];
    assert_eq!(lab.told_words("c").await, wanted);
    let twice = Item { max: 2, ..item("d", NOW) };
    lab.put("t", &[twice]).await;
    lab.reserve_one().await;
    lab.at(1000);
    lab.pump().await;
    lab.at(10_000);
    lab.pump().await;
    lab.reserve_one().await;
    lab.at(11_000);
    lab.pump().await;
    let told = lab.told("d").await;
    let words: Vec<&str> = told.iter().map(|(_, what)| what.split(' ').next().unwrap()).collect();
    assert_eq!(words, ["put", "leased", "lease_ended", "ready", "leased", "buried"]);
    assert_eq!(told[5].1, "buried its lease ran out at the last attempt");
    let dead =
        Purge { topic: "t".into(), state: "dead", from: 0, to: NOW + DAY, last: Vec::new(), limit: 100 };
    lab.words(Action::Purge(dead)).await;
    assert_eq!(lab.told_words("d").await.last().unwrap(), "purged");

    let fleeting = Item { expires: Some(NOW + 12_000), ..item("e", NOW + 11_500) };
    lab.put("t", &[fleeting]).await;
    lab.at(12_000);
    lab.pump().await;
    assert_eq!(lab.told_words("e").await.last().unwrap(), "expired");
}

#[tokio::test]
async fn groups_and_whole_batches_have_a_history_like_single_messages() {
    let mut lab = Lab::with_history("1000").await;
    let items: Vec<Item> = (0..100).map(|n| item(&format!("m{n}"), NOW + 1000)).collect();
    lab.put("t", &items).await;
    let grouped = |id| item(id, NOW + 2000).in_group("g");
    lab.put("t", &[grouped("g1"), grouped("g2")]).await;
    lab.words(Action::ShiftGroup {
        group: "g".into(),
        topic: String::new(),
        token: "1".into(),
        by: 500,
        limit: 100,
    })
    .await;
    lab.words(Action::CancelGroup {
        group: "g".into(),
        topic: String::new(),
        behind: (0, Vec::new()),
        limit: 100,
    })
    .await;
    lab.at(1000);
    lab.pump().await;
    let receipts = lab.reserve("t").await;
    lab.words(Action::Ack { receipts }).await;
    for id in ["m0", "m57", "m99"] {
        assert_eq!(lab.told_words(id).await, ["put", "ready", "leased", "delivered"], "{id}");
    }
    assert_eq!(lab.told_words(&in_g("g2")).await, ["put", "rescheduled", "cancelled"]);
}

#[tokio::test]
async fn a_history_keeps_about_as_many_events_as_its_topic_says_and_the_newest() {
    let mut lab = Lab::with_history("300").await;
    for n in 0..2000 {
        lab.put("t", &[item(&format!("m{n}"), NOW + DAY)]).await;
    }
    let kept = lab.shard.snapshot().await.histories[&1].len();
    assert!((300..=400).contains(&kept), "{kept}");
    assert_eq!(lab.told_words("m1999").await, ["put"]);
    assert_eq!(lab.told_words("m0").await, [""; 0]);
}

#[tokio::test]
async fn events_are_told_and_kept_for_as_long_as_their_topic_says() {
    let mut lab = Lab::with_history("1000").await;
    lab.run(Action::configure("t", "history_for_ms", "60000")).await.unwrap();
    lab.put("t", &[item("old", NOW + DAY)]).await;
    lab.at(50_000);
    lab.put("t", &[item("new", NOW + DAY)]).await;
    lab.at(60_001);
    assert_eq!(lab.told("old").await, []);
    lab.pump().await;
    assert_eq!(lab.shard.snapshot().await.histories[&1].len(), 1);
    // The pump alone removes the remaining events, and the stream.
    lab.at(200_000);
    lab.pump().await;
    let shard = lab.shard.snapshot().await;
    assert!(shard.histories.is_empty() && shard.index("markers").is_empty(), "{:?}", shard.keys);
    // A shorter time applies to existing events too.
    lab.put("t", &[item("newer", NOW + DAY)]).await;
    lab.run(Action::configure("t", "history_for_ms", "1000")).await.unwrap();
    let (wake, shard) = (format!("}}:wake={}", NOW + 200_000), lab.shard.snapshot().await);
    assert!(shard.said.iter().any(|line| line.ends_with(&wake)), "the timer is not told: {:?}", shard.said);
    lab.at(202_000);
    lab.pump().await;
    assert!(lab.shard.snapshot().await.histories.is_empty());
}

#[tokio::test]
async fn a_history_is_off_by_default_and_goes_when_it_is_switched_off_or_its_topic_deleted() {
    let mut lab = Lab::new().await;
    lab.put("t", &[item("a", NOW)]).await;
    let receipts = lab.reserve("t").await;
    lab.words(Action::Ack { receipts }).await;
    assert!(lab.shard.snapshot().await.histories.is_empty());
    for off in ["0", ""] {
        lab.run(Action::configure("t", "history", "100")).await.unwrap();
        lab.put("t", &[item("b", NOW + DAY)]).await;
        lab.words(Action::Cancel { topic: "t".into(), ids: ids("b") }).await;
        lab.put("t", &[Item { replace: true, ..item("b", NOW + DAY) }]).await;
        assert!(!lab.shard.snapshot().await.histories.is_empty());
        lab.run(Action::configure("t", "history", off)).await.unwrap();
        let shard = lab.shard.snapshot().await;
        assert!(shard.histories.is_empty() && !shard.index("markers").contains_key(b"h:1".as_slice()));
        assert!(!shard.hashes["meta"].contains_key("history"));
        lab.words(Action::Cancel { topic: "t".into(), ids: ids("b") }).await;
        assert!(lab.shard.snapshot().await.histories.is_empty());
    }
    lab.run(Action::configure("t", "history", "100")).await.unwrap();
    lab.put("t", &[item("c", NOW + DAY)]).await;
    lab.words(Action::Cancel { topic: "t".into(), ids: ids("c") }).await;
    assert_eq!(lab.words(Action::Forget { topic: "t".into() }).await, ["forgotten"]);
    let shard = lab.shard.snapshot().await;
    assert!(shard.histories.is_empty() && !shard.hashes["meta"].contains_key("history"));
}

#[tokio::test]
async fn a_history_outlives_a_clock_that_steps_back_and_a_foreign_key_in_its_place() {
    let mut lab = Lab::with_history("100").await;
    lab.at(DAY);
    lab.put("t", &[item("a", NOW + 2 * DAY)]).await;
    lab.at(0);
    lab.put("t", &[item("b", NOW + 2 * DAY)]).await;
    assert_eq!(lab.shard.snapshot().await.histories[&1].len(), 2);
    lab.shard.command(&[b"DEL", b"~h:1"]).await;
    lab.shard.command(&[b"SADD", b"~h:1", b"mine"]).await;
    assert_eq!(lab.put("t", &[item("c", NOW)]).await, ["ready"]);
    assert_eq!(lab.reserve("t").await.len(), 1);
    lab.at(30 * DAY);
    lab.pump().await;
    assert!(lab.shard.call(Verb::History, &[b"t".as_slice(), b"c", b""]).await.is_err());
    assert_eq!(lossy_int(&lab.shard.command(&[b"SCARD", b"~h:1"]).await), "int(1)");
}

fn lossy_int(value: &redis::Value) -> String {
    format!("{value:?}")
}

#[tokio::test]
async fn a_page_goes_on_where_the_one_before_it_ended() {
    let mut lab = Lab::with_history("100000").await;
    for page in 0..7 {
        let items: Vec<Item> = (0..100).map(|n| item(&format!("{page}-{n}"), NOW + DAY)).collect();
        lab.put("t", &items).await;
    }
    let first = lab.shard.call(Verb::History, &[b"t".as_slice(), b"6-99", b""]).await.unwrap();
    assert_eq!((first.len(), first[1].is_empty()), (4, false));
    let last = lab.shard.call(Verb::History, &[b"t".as_slice(), b"6-99", &first[1]]).await.unwrap();
    assert_eq!((last.len(), last[1].is_empty()), (6, true));
    let why = lab.shard.call(Verb::History, &[b"t".as_slice(), b"6-99", b"(nonsense"]).await.unwrap_err();
    assert!(why.contains("DQARG"), "{why}");
}

#[tokio::test]
async fn a_reserve_without_a_topic_is_refused_with_and_without_a_name() {
    let mut lab = Lab::new().await;
    for args in [&[b"1".as_slice(), b"0", b"1000", b"by=me"][..], &[b"1", b"0", b"1000"]] {
        let why = lab.shard.call(Verb::Reserve, args).await.unwrap_err();
        assert!(why.contains("DQARG"), "{why}");
    }
    lab.put("t", &[item("a", NOW)]).await;
    let reserve = Action::Reserve(Reserve::from("t", 1, None));
    assert_eq!(lab.run(reserve).await.unwrap().len(), 12);
}

#[tokio::test]
async fn a_history_whose_policy_cannot_be_read_stays_and_is_trimmed_once_it_can() {
    let mut lab = Lab::with_history("100").await;
    lab.run(Action::configure("t", "history_for_ms", "60000")).await.unwrap();
    lab.put("t", &[item("a", NOW + DAY)]).await;
    lab.shard.command(&[b"RENAME", b"~t:1", b"~kept"]).await;
    lab.shard.command(&[b"SADD", b"~t:1", b"mine"]).await;
    lab.at(61_000);
    lab.pump().await;
    assert_eq!(lossy_int(&lab.shard.command(&[b"XLEN", b"~h:1"]).await), "int(1)");
    lab.shard.command(&[b"RENAME", b"~kept", b"~t:1"]).await;
    lab.at(72_000);
    lab.pump().await;
    assert_eq!(lossy_int(&lab.shard.command(&[b"EXISTS", b"~h:1"]).await), "int(0)");
}

#[tokio::test]
async fn a_number_of_events_with_zeros_in_front_is_refused() {
    let mut lab = Lab::new().await;
    for number in ["00", "007", "-0", "100001"] {
        let why = lab.run(Action::configure("t", "history", number)).await.unwrap_err();
        assert!(why.contains("DQARG"), "{number}: {why}");
    }
}
