//! `delayq spool`: a single record, and records changed by hand.

use super::printed::assert_is_documented;
use super::{delayq, deployment, done};
use delayq::spool::SpoolRecord;
use delayq::{Due, Fate, Message, MessageId, Reschedule, Target, Topic, UnixMillis};
use delayq_spool::{Settled, SpoolReader, SpoolSettings, SpoolWriter};
use delayq_tests::binary::{Binary, Finished};
use delayq_tests::deadline::{SHORT, wait_until};
use delayq_tests::folder::Folder;
use delayq_tests::redis_server::SharedRedis;
use serde_json::{Value, json};
use std::os::unix::fs::FileExt as _;

const FAR: UnixMillis = UnixMillis::new(4_102_444_800_000);

fn message(topic: &str, id: &str, payload: &[u8]) -> Message {
    Message::new(Topic::new(topic).unwrap(), payload).id(id).unwrap().at(FAR)
}

fn record(message: &Message) -> SpoolRecord {
    SpoolRecord::put(message, Fate::Unknown, UnixMillis::new(1_000))
}

/// A spool with records 1 to 5: two puts, a reschedule, a cancel, and a put that was rejected as stale.
async fn spool() -> Folder {
    let folder = Folder::new("spool");
    let spool = SpoolWriter::open(folder.path(), &SpoolSettings::default()).unwrap();
    let a = message("orders", "a", b"{\"n\":1}").group("g").unwrap().header("h", "v").replace();
    let bytes = message("mails", "bytes", &[0, 255]).after(std::time::Duration::from_secs(9));
    let (topic, target) = (Topic::new("orders").unwrap(), Target::from(MessageId::own("b").unwrap()));
    let tried = UnixMillis::new(1_000);
    let change = Reschedule::ToIfDue(Due::At(FAR), UnixMillis::new(7));
    let records = vec![
        record(&a),
        record(&bytes),
        SpoolRecord::reschedule(&topic, &target, change, tried),
        SpoolRecord::cancel(&topic, &target, tried),
        record(&message("orders", "late", b"late")),
    ];
    spool.append(records).await.unwrap();
    let aside = Settled { rejected: vec![(5, "stale: forgotten".to_owned())], ..Settled::default() };
    SpoolReader::open_beside(folder.path()).unwrap().note(&aside).unwrap();
    folder
}

fn of(redis: &SharedRedis, folder: &Folder, args: &[&str]) -> Binary {
    delayq(redis).env("DELAYQ__SPOOL__DIR", folder.path()).arg("spool").args(args)
}

async fn ran(redis: &SharedRedis, folder: &Folder, args: &[&str]) -> Finished {
    of(redis, folder, args).run(b"", SHORT).await
}

async fn printed(redis: &SharedRedis, folder: &Folder, args: &[&str]) -> String {
    let finished = ran(redis, folder, args).await;
    assert_eq!(finished.code, Some(0), "{args:?}: {finished:?}");
    finished.stdout
}

fn numbers(folder: &Folder) -> (Vec<u64>, Vec<u64>) {
    let reader = SpoolReader::open_beside(folder.path()).unwrap();
    assert!(reader.stats().unwrap().balances());
    (
        reader.waiting(0, 10_000).unwrap().iter().map(|found| found.seq).collect(),
        reader.rejected(0, 100).unwrap().iter().map(|found| found.seq).collect(),
    )
}

#[tokio::test]
async fn one_record_is_shown_with_its_payload() {
    let (redis, folder) = (deployment().await, spool().await);
    let waiting = printed(&redis, &folder, &["waiting"]).await;
    assert!(waiting.contains("reschedule") && waiting.contains("cancel"), "{waiting}");
    let shown = printed(&redis, &folder, &["show", "1"]).await;
    let words: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
    for expected in
        [&["state", "waiting"][..], &["group", "g"], &["header", "h=v"], &["payload", "{\"n\":1}"]]
    {
        assert!(words.iter().any(|line| line == expected), "{expected:?} is not in\n{shown}");
    }
    for number in ["1", "2", "3", "4", "5"] {
        let shown = printed(&redis, &folder, &["show", number, "--json"]).await;
        let value: Value = serde_json::from_str(&shown).unwrap();
        assert_is_documented(&value, &["spool", "show", number]);
        let (state, fate) = match number {
            "5" => ("rejected", "unknown"),
            "3" | "4" => ("waiting", "not applied"),
            _ => ("waiting", "unknown"),
        };
        assert_eq!((&value["state"], &value["fate"]), (&json!(state), &json!(fate)), "{shown}");
    }
    let of_bytes: Value =
        serde_json::from_str(&printed(&redis, &folder, &["show", "2", "--json"]).await).unwrap();
    assert_eq!((&of_bytes["payload_base64"], &of_bytes["due_ms"]), (&json!("AP8="), &json!(10_000)));
    assert_eq!(printed(&redis, &folder, &["show", "1", "--payload"]).await, "{\"n\":1}");
    for (args, code, expected) in
        [(&["show", "9"][..], 66, "no record 9"), (&["show", "4", "--payload"], 64, "it has no payload")]
    {
        let finished = ran(&redis, &folder, args).await;
        assert_eq!(finished.code, Some(code), "{finished:?}");
        assert!(finished.stderr.contains(expected), "{finished:?}");
    }
}

#[tokio::test]
async fn exported_puts_are_lines_that_put_reads_and_the_other_verbs_are_lines_of_their_own() {
    let (redis, folder) = (deployment().await, spool().await);
    let all = printed(&redis, &folder, &["export"]).await;
    let lines: Vec<Value> = all.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 5, "{all}");
    assert_eq!(lines[3], json!({ "cancel": { "topic": "orders", "id": "b" } }));
    let change = json!({ "topic": "orders", "id": "b", "to": FAR.get(), "expected": 7 });
    assert_eq!(lines[2], json!({ "reschedule": change }));
    assert_eq!(lines[4]["reason"], "stale: forgotten");
    for (args, count) in [
        (&["--state", "waiting"][..], 4),
        (&["--state", "rejected"], 1),
        (&["--verb", "put", "--verb", "cancel"], 4),
        (&["--topic", "mails"], 1),
    ] {
        let some = printed(&redis, &folder, &[&["export"], args].concat()).await;
        assert_eq!(some.lines().count(), count, "{args:?}: {some}");
    }
    let puts = printed(&redis, &folder, &["export", "--verb", "put"]).await;
    let put = delayq(&redis).args(["put", "--from", "-", "--past-ok"]).run(puts.as_bytes(), SHORT).await;
    assert_eq!(put.code, Some(0), "{put:?}");
    assert_eq!(done(&redis, &["get", "orders", "a", "--group", "g", "--payload"]).await, "{\"n\":1}");
    assert_eq!(numbers(&folder), (vec![1, 2, 3, 4], vec![5]), "they stay in the spool");
}

#[tokio::test]
async fn records_are_retried_and_discarded_by_number_and_by_what_they_are() {
    let (redis, folder) = (deployment().await, spool().await);
    let asked = ran(&redis, &folder, &["discard", "1"]).await;
    assert_eq!(asked.code, Some(64), "{asked:?}");
    assert!(
        asked.stderr.contains("DQ-U016") && asked.stderr.contains("permanently deletes 1 record"),
        "{asked:?}"
    );
    assert_eq!(printed(&redis, &folder, &["retry", "--all", "--reason", "conflict"]).await, "none\n");
    assert_eq!(
        printed(&redis, &folder, &["retry", "--all", "--reason", "stale", "--force"]).await,
        "5 waits again\n"
    );
    let shown = printed(&redis, &folder, &["show", "5", "--json"]).await;
    assert_eq!(serde_json::from_str::<Value>(&shown).unwrap()["fate"], "not applied");
    assert_eq!(printed(&redis, &folder, &["drop", "1", "--yes"]).await, "1 discarded\n");
    printed(&redis, &folder, &["discard", "--all", "--waiting", "--topic", "orders", "--yes"]).await;
    assert_eq!(numbers(&folder), (vec![2], vec![]));
    let missing = ran(&redis, &folder, &["discard", "1", "2", "--yes"]).await;
    assert_eq!(missing.code, Some(66), "{missing:?}");
    assert_eq!(numbers(&folder), (vec![], vec![]));
}

#[tokio::test]
async fn a_damaged_spool_is_salvaged_with_a_report_of_what_is_lost() {
    let (redis, folder) = (deployment().await, Folder::new("spool"));
    {
        let spool = SpoolWriter::open(folder.path(), &SpoolSettings::default()).unwrap();
        let records = (0..1_000).map(|n| record(&message("orders", &format!("m{n}"), &[b'x'; 300])));
        spool.append(records.collect()).await.unwrap();
    }
    SpoolReader::open_beside(folder.path()).unwrap().shrink().unwrap();
    wait_until("the writer's end", SHORT, || {
        let lock = std::fs::File::open(folder.join("users.lock")).unwrap();
        std::future::ready(lock.try_lock().is_ok())
    })
    .await;
    let sound = ran(&redis, &folder, &["salvage"]).await;
    assert!(sound.code == Some(69) && sound.stderr.contains("nothing to salvage"), "{sound:?}");
    let file = std::fs::OpenOptions::new().write(true).open(folder.join("spool.db")).unwrap();
    file.write_all_at(&[0; 8192], 40 * 4096).unwrap();
    let damaged = ran(&redis, &folder, &["show"]).await;
    assert!(damaged.code == Some(69) && damaged.stderr.contains("delayq spool salvage"), "{damaged:?}");
    let salvaged = ran(&redis, &folder, &["salvage", "--json"]).await;
    assert_eq!(salvaged.code, Some(65), "{salvaged:?}");
    let report: Value = serde_json::from_str(&salvaged.stdout).unwrap();
    assert_is_documented(&report, &["spool", "salvage"]);
    let (kept, _) = numbers(&folder);
    let lost: Vec<u64> = serde_json::from_value(report["lost_numbers"].clone()).unwrap();
    assert!(!lost.is_empty() && report["lost"] == lost.len(), "{report}");
    assert!((1..=1_000).all(|number| kept.contains(&number) != lost.contains(&number)), "{report}");
}

#[tokio::test]
async fn the_doctor_says_who_reads_the_spool_and_how_long_the_oldest_has_waited() {
    let (redis, folder) = (deployment().await, spool().await);
    let found = async || {
        let doctor = delayq(&redis).env("DELAYQ__SPOOL__DIR", folder.path()).args(["doctor", "--json"]);
        let checks: Value = serde_json::from_str(&doctor.run(b"", SHORT).await.stdout).unwrap();
        let check = checks.as_array().unwrap().iter().find(|check| check["what"] == "spool").unwrap().clone();
        (check["verdict"].as_str().unwrap().to_owned(), check["found"].as_str().unwrap().to_owned())
    };
    for (reads, verdict) in [
        ("never read by a compensator, 4 records waiting, the oldest for ", "bad"),
        ("no compensator is reading it, 4 records waiting, the oldest for ", "bad"),
        (", read by the test: 4 records waiting, the oldest for ", "good"),
        (", read by the test: nothing waits", "good"),
    ] {
        let mut reader =
            reads.contains("read by the test").then(|| SpoolReader::open(folder.path(), "the test").unwrap());
        if let (Some(reader), true) = (&mut reader, reads.contains("nothing")) {
            let done = Settled { done: vec![1, 2, 3, 4], ..Settled::default() };
            reader.note(&done).unwrap();
        }
        let (judged, said) = found().await;
        assert!(judged == verdict && said.contains(reads), "{judged}: {said}");
        drop(reader.is_none().then(|| SpoolReader::open(folder.path(), "the test").unwrap()));
    }
}

#[tokio::test]
async fn a_record_that_a_later_one_overtook_waits_again_only_by_force() {
    let (redis, folder) = (deployment().await, Folder::new("spool"));
    let spool = SpoolWriter::open(folder.path(), &SpoolSettings::default()).unwrap();
    let put = message("orders", "a", b"x");
    let cancel = SpoolRecord::cancel(&put.topic, &Target::from(put.id.clone().unwrap()), UnixMillis::new(1));
    spool.append(vec![record(&put), cancel]).await.unwrap();
    let settled = Settled { rejected: vec![(1, "refused".to_owned())], done: vec![2], ..Settled::default() };
    SpoolReader::open_beside(folder.path()).unwrap().note(&settled).unwrap();
    let listed = printed(&redis, &folder, &["rejected", "--json"]).await;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed[0]["overtaken"], json!(true), "{listed}");
    assert!(printed(&redis, &folder, &["rejected"]).await.contains("refused (overtaken)"));
    let refused = ran(&redis, &folder, &["retry", "1"]).await;
    assert!(refused.code == Some(66) && refused.stderr.contains("--force"), "{refused:?}");
    assert_eq!(numbers(&folder), (vec![], vec![1]));
    printed(&redis, &folder, &["retry", "1", "--force"]).await;
    assert_eq!(numbers(&folder), (vec![1], vec![]));
}
