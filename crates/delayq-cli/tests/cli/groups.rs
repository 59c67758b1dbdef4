//! An own id is another message in each group: every command by id finds each message by its own group alone.

use delayq::{Client, Consumer, ConsumerOptions, Namespace, Settings, ShardCount, Topic};
use delayq_tests::binary::{Binary, Finished};
use delayq_tests::deadline::{LONG, SHORT, within};
use delayq_tests::folder::Folder;
use delayq_tests::redis_server::{RedisServer, SharedRedis};
use serde_json::Value;
use std::collections::BTreeSet;

const DUE: &str = "2100-01-01T00:00:00Z";
const GROUPS: [Option<&str>; 3] = [None, Some("user-5"), Some("user-6")];

struct Lab {
    redis: SharedRedis,
    namespace: &'static str,
    shards: u16,
}

// === impl Lab ===

impl Lab {
    async fn new(shards: u16) -> Self {
        let lab = Self { redis: RedisServer::start().await, namespace: "one", shards };
        lab.done(&["init"]).await;
        lab.done(&["topic", "set", "t", "--create", "--history", "100"]).await;
        lab
    }

    async fn other(self, shards: u16) -> Self {
        let lab = Self { namespace: "other", shards, ..self };
        lab.done(&["init"]).await;
        lab
    }

    async fn run(&self, args: &[&str]) -> Finished {
        let binary = Binary::new("delayq").env("DELAYQ__ETCD__ENABLED", "false");
        let (url, shards) = (self.redis.url(), self.shards.to_string());
        let binary = binary.args(["--redis", &url, "--shards", &shards, "--namespace", self.namespace]);
        binary.args(args).run(b"", SHORT).await
    }

    async fn done(&self, args: &[&str]) -> String {
        let finished = self.run(args).await;
        assert_eq!(finished.code, Some(0), "{} shards, {args:?}: {finished:?}", self.shards);
        finished.stdout
    }

    async fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.done(&[args, &["-o", "json"]].concat()).await).unwrap()
    }

    async fn put(&self, topic: &str, due: &[&str]) {
        for group in GROUPS {
            let payload = group.unwrap_or("nobody");
            self.done(&[&["put", topic, payload, "--id", "k1"], due, &of(group)[..]].concat()).await;
        }
    }

    async fn listed(&self, args: &[&str]) -> BTreeSet<Option<String>> {
        let page = self.json(args).await;
        let group = |found: &Value| found["group"].as_str().map(str::to_owned);
        page["messages"].as_array().unwrap().iter().map(group).collect()
    }

    fn client(&self) -> Client {
        let mut settings = Settings::new(self.redis.url()).shards(ShardCount::new(self.shards).unwrap());
        settings.namespace = Namespace::new(self.namespace).unwrap();
        Client::new(settings)
    }
}

fn of(group: Option<&str>) -> Vec<&str> {
    group.map_or_else(Vec::new, |group| vec!["--group", group])
}

#[tokio::test]
async fn a_command_by_id_with_a_wrong_or_missing_group_finds_nothing() {
    for shards in [1, 7] {
        let lab = Lab::new(shards).await;
        lab.done(&["put", "t", "x", "--id", "k1", "--group", "user-5", "--at", DUE]).await;
        for group in [None, Some("user-6")] {
            for command in
                [&["cancel"][..], &["reschedule", "--to", "2101-01-01T00:00:00Z"], &["get"], &["log"]]
            {
                let found = lab.run(&[command, &["t", "k1"], &of(group)[..]].concat()).await;
                assert_eq!(found.code, Some(66), "{shards} shards, {command:?}: {found:?}");
                let hint = group.map_or("add --group", |_| "each group has its own ids");
                assert!(found.stderr.contains(hint), "{command:?}: {found:?}");
            }
        }
        let mine = ["get", "t", "k1", "--group", "user-5"];
        let found = lab.json(&mine).await;
        assert_eq!((&found["state"], &found["due_ms"]), (&"delayed".into(), &4_102_444_800_000_u64.into()));
    }
}

#[tokio::test]
async fn one_id_in_three_groups_is_three_messages_for_every_command() {
    for shards in [1, 7] {
        let lab = Lab::new(shards).await;
        lab.put("t", &["--at", DUE]).await;
        for group in GROUPS {
            let args = [&["t", "k1"], &of(group)[..]].concat();
            let found = lab.json(&[&["get"], &args[..]].concat()).await;
            assert_eq!(found["payload"], group.unwrap_or("nobody"), "{shards} shards: {found}");
            let log = lab.json(&[&["log"], &args[..]].concat()).await;
            assert_eq!((log["events"].as_array().unwrap().len(), log["group"].as_str()), (1, group), "{log}");
        }
        lab.done(&["reschedule", "t", "k1", "-g", "user-6", "--to", "2101-01-01T00:00:00Z"]).await;
        lab.done(&["cancel", "t", "k1", "--group", "user-5"]).await;
        let cancelled = lab.json(&["get", "t", "k1", "--group", "user-5"]).await;
        assert_eq!((&cancelled["state"], &cancelled["group"]), (&"cancelled".into(), &"user-5".into()));
        let left = BTreeSet::from([None, Some("user-6".to_owned())]);
        assert_eq!(lab.listed(&["list", "t"]).await, left);
        assert_eq!(lab.json(&["get", "t", "k1"]).await["due_ms"], 4_102_444_800_000_u64);
        lab.done(&["audit", "--bodies"]).await;
        let (folder, other) = (Folder::new("groups"), 8 - shards);
        let file = folder.path().join("backup.ndjson");
        let file = file.to_str().unwrap();
        lab.done(&["backup", file]).await;
        let lab = lab.other(other).await;
        for _ in 0..2 {
            lab.done(&["restore", file]).await;
            assert_eq!(lab.listed(&["list", "t"]).await, left);
        }
        lab.done(&["cancel", "t", "k1"]).await;
        lab.done(&["cancel", "t", "k1", "--group", "user-6"]).await;
    }
}

#[tokio::test]
async fn a_dead_letter_is_replayed_by_its_own_group_alone() {
    for shards in [1, 7] {
        let lab = Lab::new(shards).await;
        lab.put("d", &[]).await;
        let mut consumer =
            Consumer::start(lab.client(), ConsumerOptions::new([Topic::new("d").unwrap()])).unwrap();
        for _ in GROUPS {
            within("a delivery", LONG, consumer.next()).await.unwrap().bury("bad").await.unwrap();
        }
        consumer.stop().await;
        assert_eq!(lab.run(&["dead", "replay", "d", "k1", "--group", "user-7"]).await.code, Some(66));
        lab.done(&["dead", "replay", "d", "k1", "--group", "user-6"]).await;
        let ready = ["list", "d", "--state", "ready"];
        assert_eq!(lab.listed(&ready).await, BTreeSet::from([Some("user-6".to_owned())]));
        lab.done(&["dead", "replay", "d", "k1"]).await;
        let dead = BTreeSet::from([Some("user-5".to_owned())]);
        assert_eq!(lab.listed(&["dead", "list", "d"]).await, dead);
        lab.done(&["dead", "replay", "d", "--all"]).await;
        assert_eq!(lab.listed(&ready).await.len(), GROUPS.len());
        let refused = lab.run(&["put", "d", "other", "--id", "k1", "--group", "user-5"]).await;
        assert!(refused.stdout.contains("another message"), "{refused:?}");
    }
}

#[tokio::test]
async fn a_users_orders_are_cancelled_and_the_reminders_moved_each_by_its_topic() {
    for shards in [1, 7] {
        let lab = Lab::new(shards).await;
        for topic in ["t", "reminders"] {
            lab.put(topic, &["--at", DUE]).await;
        }
        let moved =
            ["reschedule", "--all", "-g", "user-5", "--topic", "reminders", "--by", "1h", "--token", "a"];
        let moved = lab.json(&moved).await;
        assert_eq!((&moved["moved"], &moved["topic"]), (&1.into(), &"reminders".into()), "{moved}");
        let cancelled = lab.json(&["cancel", "--all", "-g", "user-5", "--topic", "t"]).await;
        assert_eq!((&cancelled["cancelled"], &cancelled["topic"]), (&1.into(), &"t".into()), "{cancelled}");
        let mine = async |topic: &str, group: &str| lab.json(&["get", topic, "k1", "-g", group]).await;
        assert_eq!(mine("t", "user-5").await["state"], "cancelled");
        let (order, reminder) = (mine("t", "user-6").await, mine("reminders", "user-5").await);
        assert_eq!((&order["state"], &reminder["state"]), (&"delayed".into(), &"delayed".into()));
        let later = |due: &Value| due.as_u64().unwrap() - 4_102_444_800_000;
        assert_eq!((later(&order["due_ms"]), later(&reminder["due_ms"])), (0, 3_600_000));
        let without_all = lab.run(&["cancel", "t", "k1", "--topic", "t"]).await;
        assert_eq!(without_all.code, Some(64), "{without_all:?}");
    }
}
