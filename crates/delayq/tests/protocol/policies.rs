//! Topics and their policies: refused settings, and invalid stored values, which stop nothing.

use crate::action::{Action, GiveBack};
use crate::bare_shard::NOW;
use crate::lab::{Lab, grouped, item};
use crate::snapshot::lossy;
use delayq::Backoff;
use delayq::admin::Form;
use delayq::protocol::Verb;
use delayq_core::policy::{FLOW, SETTINGS};
use std::time::Duration;

/// Invalid back-offs: unknown kind, wrong length, no delay, shrinking.
const BROKEN: [&[u8]; 12] = [
    b"",
    &[0, 0, 0, 0, 1],
    &[4, 0, 0, 0, 1],
    &[1],
    &[1, 0, 0, 0, 1, 0, 0, 0, 2],
    &[1, 0, 0, 0, 0],
    &[2, 0, 0, 0, 1],
    &[2, 0, 0, 0, 9, 0, 0, 0, 1],
    &[2, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3],
    &[3],
    &[3, 0, 0, 0, 1, 0],
    &[3, 0, 0, 0, 1, 0, 0, 0, 0],
];

#[tokio::test]
async fn a_back_off_of_a_wrong_length_or_kind_is_refused_by_configure_and_by_put() {
    let mut lab = Lab::new().await;
    let mut long = vec![3];
    long.extend([0, 0, 0, 1].repeat(33));
    for spec in BROKEN.into_iter().chain([long.as_slice()]) {
        if !spec.is_empty() {
            let why =
                lab.shard.call(Verb::Configure, &[b"a".as_slice(), b"backoff", spec]).await.unwrap_err();
            assert!(why.starts_with("DQARG backoff"), "{spec:?}: {why}");
        }
        let head = [&[1, 1][..], &4_u16.to_be_bytes(), &[0; 28], &[spec.len() as u8], spec].concat();
        let put = [b"a".as_slice(), b"x", b"+0", b"", &head];
        let word = lossy(&lab.shard.call(Verb::Put, &put).await.unwrap()[1]);
        assert!(word.starts_with("refused") && word.contains("back-off"), "{spec:?}: {word}");
    }
    assert_eq!(lab.shard.snapshot().await.number("meta", "topics"), 0);
}

#[tokio::test]
async fn a_stored_back_off_that_is_invalid_falls_back_to_the_default_and_leaves_nothing_leased() {
    let mut lab = Lab::new().await;
    for spec in BROKEN {
        lab.put("a", &[item("x", "+0"), item("y", "+0")]).await;
        let hset: [&[u8]; 4] = [b"HSET", b"~t:1", b"backoff", spec];
        lab.shard.command(&hset).await;
        let receipts = lab.reserve("a").await;
        let all = vec![GiveBack { receipt: receipts[0].clone(), delay: None, keep: false }];
        let word = lab.words(Action::Release { all }).await.remove(0);
        let due: u64 = word.strip_prefix("delayed ").expect(&word).parse().unwrap();
        let now = lab.shard.clock_us.unwrap() / 1000;
        assert!((now + 500..=now + 1000).contains(&due), "{spec:?}: {due} at {now}");
        lab.at(now - NOW + 1000);
        let report = lab.pump().await;
        assert_eq!((report[4].as_str(), report[8].as_str()), ("1", "0"), "{spec:?}: {report:?}");
        lab.at(now - NOW + 10_000);
        lab.pump().await;
        let receipts = lab.reserve("a").await;
        assert_eq!(lab.words(Action::Ack { receipts }).await, ["delivered", "delivered"]);
        lab.at(now - NOW + 200_000);
        lab.pump().await;
    }
}

#[tokio::test]
async fn a_message_s_own_back_off_that_is_invalid_falls_back_to_that_of_its_topic() {
    let mut lab = Lab::new().await;
    lab.words(Action::configure("a", "backoff", [1, 0, 0, 0, 77])).await;
    let mut own = item("x", NOW);
    own.backoff = Some(Backoff::Fixed(Duration::from_millis(1)));
    lab.put("a", &[own]).await;
    let receipt = lab.reserve("a").await.remove(0);
    // The kind of the back-off, after head, hash and length.
    lab.shard.command(&[b"SETRANGE", b"~m:1:x", b"41", &[9]]).await;
    let all = vec![GiveBack { receipt, delay: None, keep: false }];
    assert_eq!(lab.words(Action::Release { all }).await, [format!("delayed {}", NOW + 77)]);
}

#[tokio::test]
async fn a_refused_configure_or_put_creates_no_topic() {
    let mut lab = Lab::new().await;
    for (field, value) in
        [("rate", "0"), ("rate", "1e3"), ("lease_ms", "0"), ("codec", "gzip"), ("paused", "2"), ("x", "1")]
    {
        let why = lab.run(Action::configure("a", field, value)).await.unwrap_err();
        assert!(why.starts_with("DQARG"), "{why}");
    }
    assert_eq!(lab.put("a", &[item("x", "tomorrow")]).await, ["refused due time"]);
    let shard = lab.shard.snapshot().await;
    assert_eq!((shard.number("meta", "topics"), shard.hashes.contains_key("t:1")), (0, false), "{shard:?}");
    let mut expired = item("x", NOW);
    expired.expires = Some(NOW);
    assert_eq!(
        lab.put("a", &[expired, item("y", NOW)]).await,
        ["refused expiry not after the due time", "ready"]
    );
    assert_eq!(lab.shard.snapshot().await.number("meta", "topics"), 1);
}

#[tokio::test]
async fn a_put_to_an_earlier_place_creates_no_topic_where_there_is_nothing() {
    let mut lab = Lab::new().await;
    let envelope = item("x", NOW).envelope().encode();
    let due = NOW.to_string();
    let put = [b"a".as_slice(), b"x", due.as_bytes(), b"earlier", &envelope];
    assert_eq!(lossy(&lab.shard.call(Verb::Put, &put).await.unwrap()[1]), "moved");
    assert_eq!(lab.shard.snapshot().await.number("meta", "topics"), 0);
}

#[tokio::test]
async fn a_write_that_does_not_wait_as_its_topic_asks_is_refused_before_anything_is_written() {
    let mut lab = Lab::new().await;
    lab.put("a", &[item("x", NOW + 5), grouped("y", NOW + 5)]).await;
    lab.run(Action::configure("a", "durability", "replica:1")).await.unwrap();
    let (topic, group) = (|| "a".to_owned(), || "g".to_owned());
    let writes = || {
        [
            Action::Put { topic: topic(), items: vec![item("z", NOW + 5)] },
            Action::Put { topic: topic(), items: vec![grouped("u", NOW + 5)] },
            Action::Reschedule { topic: topic(), changes: vec![(b"x".to_vec(), "+9".to_owned(), None)] },
            Action::Cancel { topic: topic(), ids: vec![b"x".to_vec()] },
            Action::ShiftGroup {
                group: group(),
                topic: String::new(),
                token: "1".to_owned(),
                by: 1,
                limit: 9,
            },
            Action::CancelGroup { group: group(), topic: String::new(), behind: (0, Vec::new()), limit: 9 },
        ]
    };
    let dump = |shard: &_| format!("{shard:?}");
    let before = dump(&*lab.shard.snapshot().await);
    for (layout, code) in [
        ("1", "DQDURABILITY replica:1 "),
        ("1 disk", "DQDURABILITY replica:1 "),
        ("1 replica:10", "DQDURABILITY replica:1 "),
        ("2 replica:1", "DQLAYOUT 1 "),
        ("1 ", "DQLAYOUT 1 "),
    ] {
        lab.shard.layout = layout;
        for write in writes() {
            let why = lab.run(write).await.unwrap_err();
            assert!(why.starts_with(code), "{layout}: {why}");
        }
        lab.shard.layout = "1";
        assert_eq!(dump(&*lab.shard.snapshot().await), before, "{layout}");
    }
    lab.shard.layout = "1 disk replica:1";
    for write in writes() {
        let words = lab.words(write).await;
        assert!(words.iter().all(|word| !word.starts_with("refused")), "{words:?}");
    }
    assert_ne!(dump(&*lab.shard.snapshot().await), before);
}

/// Values within a setting's range, and values outside.
fn ends(form: Form) -> (Vec<String>, Vec<String>) {
    let whole = |least: u64, most: u64| {
        let below = least.checked_sub(1).map_or_else(|| "-1".to_owned(), |below| below.to_string());
        (vec![least.to_string(), most.to_string()], vec![below, (most + 1).to_string()])
    };
    match form {
        Form::Count { most } => whole(0, most.into()),
        Form::Span { least_ms, most_ms } => whole(least_ms, most_ms),
        Form::Word(words) => {
            let word = |word: &&str| {
                let class = if word.ends_with("/[smh]") { "9/s" } else { "9" };
                word.split('[').next().unwrap().to_owned() + if word.contains('[') { class } else { "" }
            };
            (words.iter().map(word).collect(), vec!["x".to_owned(), words[words.len() - 1].to_uppercase()])
        }
        Form::Flag => whole(1, 1),
        Form::Rate { least, most } => (
            vec![format!("{least:.9}"), format!("{most}")],
            vec![format!("{:.10}", least / 2.0), format!("{}", most * 2.0)],
        ),
        Form::Backoff => (vec![], vec!["1s".to_owned()]),
    }
}

#[tokio::test]
async fn configure_has_the_fields_and_the_ranges_of_the_table_of_settings() {
    let mut lab = Lab::new().await;
    for setting in SETTINGS.iter().chain(&FLOW) {
        let (taken, refused) = ends(setting.form);
        for value in taken {
            let call = [b"a".as_slice(), setting.field.as_bytes(), value.as_bytes()];
            lab.shard
                .call(Verb::Configure, &call)
                .await
                .unwrap_or_else(|why| panic!("{} = {value}: {why}", setting.field));
        }
        for value in refused {
            let call = [b"a".as_slice(), setting.field.as_bytes(), value.as_bytes()];
            let why = lab.shard.call(Verb::Configure, &call).await.unwrap_err();
            assert!(
                why.starts_with(&format!("DQARG {}", setting.field)),
                "{} = {value}: {why}",
                setting.field
            );
        }
    }
    let script = include_str!("../../../../lua/configure.lua");
    let (_, fits) = script.split_once("local fits = {").unwrap();
    let fits = fits.split_once("\n}\n").unwrap().0;
    let fields = fits.lines().filter(|line| {
        line.starts_with("  ")
            && line[2..].starts_with(|c: char| c.is_ascii_lowercase())
            && line.contains(" = ")
    });
    assert_eq!(fields.count(), SETTINGS.len() + FLOW.len());
}
