//! One of several Redises is away, or came back empty: every query shows the other nodes.

use super::agreement::agreed;
use super::printed::assert_is_documented;
use crate::flow::delayq;
use delayq::ShardCount;
use delayq_tests::binary::Finished;
use delayq_tests::deadline::LONG;
use delayq_tests::folder::Folder;
use delayq_tests::redis_nodes::RedisNodes;
use flate2::read::GzDecoder;
use serde_json::Value;

const LOOKS: [&[&str]; 14] = [
    &["doctor"],
    &["shards"],
    &["timers"],
    &["topics"],
    &["topic", "show", "orders"],
    &["count"],
    &["count", "orders"],
    &["list", "orders"],
    &["dead", "list", "orders"],
    &["histogram", "orders"],
    &["audit"],
    &["audit", "--bodies"],
    &["repair"],
    &["top", "--interval", "500ms"],
];

fn bundled(bundle: &str, part: &str) -> Value {
    let mut archive = tar::Archive::new(GzDecoder::new(std::fs::File::open(bundle).unwrap()));
    let mut entries = archive.entries().unwrap().map(Result::unwrap);
    serde_json::from_reader(entries.find(|entry| entry.path().unwrap().ends_with(part)).unwrap()).unwrap()
}

fn is_partial(finished: &Finished, what: &[&str], why: &str) -> Value {
    assert_eq!(finished.code, Some(68), "{what:?}: {finished:?}");
    for word in ["DQ-U030", "shards 2-3: ", why] {
        assert!(finished.stderr.contains(word), "{what:?}: {word:?} is not in {}", finished.stderr);
    }
    assert!(!finished.stderr.contains("delayq up"), "{what:?}: {}", finished.stderr);
    serde_json::from_str(&finished.stdout).unwrap_or_else(|error| panic!("{what:?}: {error}: {finished:?}"))
}

#[tokio::test]
async fn a_node_that_is_away_or_empty_hides_no_other_from_any_look_and_its_shards_are_named() {
    let (mut nodes, folder) = (RedisNodes::start(2).await, Folder::new("partial"));
    let file = folder.join("delayq.toml");
    let text = format!("[deployment]\nshards = 6\n{}[etcd]\nenabled = false\n", nodes.section());
    std::fs::write(&file, text).unwrap();
    let run = async |args: &[&str]| delayq(&file, &[args, &["--json"]].concat()).run(b"", LONG).await;
    assert_eq!(run(&["init"]).await.code, Some(0));
    let ids: Vec<String> = (0..60).map(|n| format!("own-{n}")).collect();
    let lines: String = ids.iter().map(|id| format!("{{\"id\":\"{id}\",\"due\":4102444800000}}\n")).collect();
    let put = delayq(&file, &["put", "orders", "--from", "-"]).run(lines.as_bytes(), LONG).await;
    assert_eq!(put.code, Some(0), "{put:?}");
    let count = ShardCount::new(6).unwrap();
    let elsewhere =
        ids.iter().filter(|id| !nodes.shards_of(1).contains(&count.shard_of_name(id).get())).count();
    for args in LOOKS {
        assert_ne!(run(args).await.code, Some(68), "{args:?} lacks nothing");
    }

    nodes.servers[1].kill().await;
    for (why, is_away) in
        [("cannot reach Redis at b (redis://", true), ("shard 2 does not exist in this Redis", false)]
    {
        for args in LOOKS {
            let shown = is_partial(&run(args).await, args, why);
            assert_is_documented(&shown, args);
        }
        for args in [&["count"][..], &["count", "orders"], &["topic", "show", "orders"]] {
            assert_eq!(is_partial(&run(args).await, args, why)["delayed"], elsewhere, "{args:?}");
        }
        let shards = is_partial(&run(&["shards"]).await, &["shards"], why);
        let homes: Vec<&str> =
            shards.as_array().unwrap().iter().map(|one| one["node"].as_str().unwrap()).collect();
        assert_eq!(homes, ["a", "a", "c", "c"]);
        let unsure = run(&["list", "ordres"]).await;
        assert_eq!(unsure.code, Some(68), "the topic may be where nobody answers: {unsure:?}");
        assert!(unsure.stderr.contains("did you mean orders?"), "{unsure:?}");
        let (doctor, check) = (run(&["doctor"]).await, run(&["check"]).await);
        assert!(doctor.stdout.contains("4 of 6 shards answer"), "{doctor:?}");
        assert!(agreed(&doctor, &check).contains(&("deployment".to_owned(), "CRITICAL")), "{check:?}");
        assert!(check.stdout.contains("no timer has ever owned 4 of 4"), "{check:?}");
        let bundle = folder.join(&format!("{is_away}.tar.gz")).display().to_string();
        is_partial(&run(&["bundle", &bundle]).await, &["bundle"], why);
        let packed = bundled(&bundle, "shards.json");
        assert_eq!(packed["shards"].as_array().unwrap().len(), 4, "{packed}");
        assert!(packed["unseen"][0].as_str().unwrap().starts_with("shards 2-3: "), "{packed}");
        assert_eq!(bundled(&bundle, "topics.json")[0]["numbers"]["delayed"], elsewhere);
        assert_eq!(bundled(&bundle, "redis.json")["nodes"].as_array().unwrap().len(), 3);
        if is_away {
            nodes.servers[1].wipe();
            nodes.servers[1].resume().await;
        }
    }
    assert_eq!(nodes.servers[1].command::<u64>(&["DBSIZE"]).await, 0, "nobody who looks creates a shard");

    for server in &mut nodes.servers {
        server.kill().await;
    }
    let judges = ["top", "doctor"];
    for args in LOOKS.iter().filter(|args| !judges.contains(&args[0])) {
        let finished = run(args).await;
        assert!(finished.code == Some(69) && finished.stderr.contains("DQ-R001"), "{args:?}: {finished:?}");
    }
}
