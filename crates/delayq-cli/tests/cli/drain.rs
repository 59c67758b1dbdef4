//! `delayq timers drain` and `undrain` with running timers.

use super::agreement::agreed;
use super::printed::assert_is_documented;
use super::{delayq, deployed, run};
use delayq_tests::binary::{Binary, Finished};
use delayq_tests::deadline::{LONG, SHORT, wait_until};
use delayq_tests::etcd_server::EtcdCluster;
use delayq_tests::process::{Process, Signal};
use delayq_tests::redis_server::RedisServer;
use serde_json::{Value, json};

struct Fleet {
    redis: RedisServer,
    etcd: EtcdCluster,
}

// === impl Fleet ===

impl Fleet {
    async fn start() -> Self {
        Self { redis: deployed(RedisServer::private().await).await, etcd: EtcdCluster::start_one().await }
    }

    fn with_etcd(&self, binary: Binary) -> Binary {
        let endpoints = format!("[\"{}\"]", self.etcd.endpoints()[0]);
        binary.env("DELAYQ__ETCD__ENABLED", "true").env("DELAYQ__ETCD__ENDPOINTS", endpoints)
    }

    fn timer(&self, name: &str) -> Process {
        let timer = Binary::new("delayq-timer").env("DELAYQ__REDIS__URL", self.redis.url());
        let timer = timer.env("DELAYQ__DEPLOYMENT__SHARDS", "4").env("DELAYQ__ADMIN__LISTEN", "");
        self.with_etcd(timer).env("DELAYQ__TIMER__NAME", name).start()
    }

    async fn run(&self, args: &[&str]) -> Finished {
        self.with_etcd(delayq(&self.redis)).args(args).run(b"", SHORT).await
    }

    async fn json(&self, args: &[&str]) -> Value {
        let finished = self.run(&[args, &["--json"]].concat()).await;
        assert_eq!(finished.code, Some(0), "{args:?}: {finished:?}");
        let value = serde_json::from_str(&finished.stdout).unwrap();
        assert_is_documented(&value, args);
        value
    }

    async fn refused(&self, args: &[&str], code: i32, words: &str) {
        let finished = self.run(args).await;
        assert!(finished.code == Some(code) && finished.stderr.contains(words), "{args:?}: {finished:?}");
    }

    async fn claimed(&self) -> Vec<(String, u64)> {
        let timers = self.json(&["timers"]).await;
        let members = timers["fleet"]["members"].as_array().unwrap().iter();
        let owners = timers["owners"].as_array().unwrap();
        let pumped = |name: &Value| {
            let owner = owners.iter().find(|owner| owner["name"] == *name);
            owner.map_or(0, |owner| owner["shards"].as_array().unwrap().len() as u64)
        };
        members.map(|one| (one["name"].as_str().unwrap().to_owned(), pumped(&one["name"]))).collect()
    }

    async fn shared(&self) {
        wait_until("two timers to share", LONG, async || {
            let mut claimed = self.claimed().await;
            claimed.sort();
            claimed == [("one".to_owned(), 2), ("two".to_owned(), 2)]
        })
        .await;
    }
}

#[tokio::test]
async fn a_timer_beyond_the_number_of_shards_is_a_spare() {
    let fleet = Fleet::start().await;
    let _four = ["one", "two", "three", "four"].map(|name| fleet.timer(name));
    wait_until("a shard each", LONG, async || {
        let claimed = fleet.claimed().await;
        claimed.len() == 4 && claimed.iter().all(|(_, shards)| *shards == 1)
    })
    .await;
    let _fifth = fleet.timer("five");
    wait_until("the fifth", LONG, async || fleet.claimed().await.len() == 5).await;
    let shown = fleet.run(&["timers"]).await.stdout;
    let spares: Vec<&str> =
        shown.lines().filter(|line| line.split(' ').any(|word| word == "spare")).collect();
    assert!(matches!(spares[..], [line] if line.starts_with("five ")), "{shown}");
}

#[tokio::test]
async fn a_drained_timer_is_shown_everywhere_and_keeps_no_shard_over_its_restart_until_it_is_undrained() {
    let fleet = Fleet::start().await;
    let (mut one, _two) = (fleet.timer("one"), fleet.timer("two"));
    fleet.shared().await;

    let drained = fleet.json(&["timers", "drain", "one", "--reason", "kernel"]).await;
    assert_eq!((&drained["done"], &drained["name"]), (&json!("drained"), &json!("one")));
    let has = |claimed: &[(String, u64)], name: &str| claimed.iter().find(|(n, _)| n == name).unwrap().1;
    let claimed = fleet.claimed().await;
    assert_eq!((has(&claimed, "one"), has(&claimed, "two")), (0, 4), "the command waited for it");
    let shown = fleet.run(&["timers"]).await.stdout;
    assert!(shown.contains("drained") && shown.contains("one is drained since 20"), "{shown}");
    assert!(shown.contains("Z: kernel\n"), "{shown}");
    let doctor = fleet.run(&["doctor"]).await;
    assert!(doctor.stdout.contains("one is drained since") && doctor.code == Some(0), "{doctor:?}");
    let check = fleet.run(&["check"]).await.stdout;
    assert!(check.starts_with("OK - ") && check.contains("1 timer owns 4 shards, 1 drained"), "{check}");
    let again = fleet.json(&["timers", "drain", "one"]).await;
    assert_eq!(again["done"], "already_drained");

    fleet
        .refused(
            &["timers", "drain", "two"],
            65,
            "DQ-U020: two is the last timer that can hold shards: one is drained",
        )
        .await;
    fleet
        .refused(&["timers", "drain", "tow"], 66, "DQ-U012: no timer tow; registered in etcd: one, two")
        .await;
    fleet.refused(&["timers", "undrain", "tow"], 66, "DQ-U012: no timer tow").await;

    assert_eq!(one.end_by(Signal::TERM, SHORT).await.code(), Some(0));
    let gone = fleet.run(&["timers"]).await.stdout;
    assert!(gone.contains(", and not registered: kernel\n"), "{gone}");
    let mut back = fleet.timer("one");
    back.wait_for_line("drained: other timers get this timer's shards", LONG).await;
    assert_eq!(has(&fleet.claimed().await, "one"), 0);
    assert_eq!(fleet.json(&["timers", "undrain", "one"]).await["done"], "undrained");
    fleet.shared().await;
    assert_eq!(fleet.json(&["timers", "undrain", "one"]).await["done"], "not_drained");
}

#[tokio::test]
async fn the_last_timer_is_drained_by_force_alone_and_a_stuck_one_is_not_waited_for_without_end() {
    let fleet = Fleet::start().await;
    let _one = fleet.timer("one");
    wait_until("it to own all", LONG, async || fleet.claimed().await == [("one".to_owned(), 4)]).await;
    fleet.refused(&["timers", "drain", "one"], 65, "no other timer").await;
    let drained = fleet.run(&["timers", "drain", "one", "--force"]).await;
    assert!(
        drained.stdout.starts_with("one is drained: 4 of 4 shards released, but no other timer takes them"),
        "{drained:?}"
    );
    let [doctor, check] = [fleet.run(&["doctor", "--json"]).await, fleet.run(&["check", "--json"]).await];
    assert!(agreed(&doctor, &check).contains(&("timers".to_owned(), "CRITICAL")), "{check:?}");
    assert!(doctor.code == Some(69) && doctor.stdout.contains("every timer is drained"), "{doctor:?}");
    fleet.json(&["timers", "undrain", "one"]).await;
    wait_until("it to own all", LONG, async || fleet.claimed().await == [("one".to_owned(), 4)]).await;

    let two = fleet.timer("two");
    fleet.shared().await;
    two.signal(Signal::STOP);
    fleet
        .refused(
            &["timers", "drain", "one", "--deadline", "300ms"],
            75,
            "DQ-U021: one: 2 shards not handed over within 300ms",
        )
        .await;
    let unwaited = fleet.run(&["timers", "drain", "one", "--no-wait"]).await;
    assert!(unwaited.stdout.starts_with("one was drained already: 2 shards on their way"), "{unwaited:?}");
    two.signal(Signal::CONT);
    assert_eq!(fleet.json(&["timers", "drain", "one"]).await["done"], "already_drained");
}

#[tokio::test]
async fn without_etcd_no_timer_can_be_drained() {
    let redis = RedisServer::start().await;
    for verb in ["drain", "undrain"] {
        let refused = run(&redis, &["timers", verb, "one"]).await;
        assert_eq!(refused.code, Some(78), "{refused:?}");
        assert!(refused.stderr.contains("DQ-U019: [etcd] enabled = false: a single timer"), "{refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_that_replaces_another_one_in_etcd_is_recorded_on_request_alone() {
    let fleet = Fleet::start().await;
    let mut timer = fleet.timer("one");
    timer.wait_for_line("started", SHORT).await;
    timer.ends_well_by(Signal::TERM, SHORT).await;
    let lost = fleet.json(&["init"]).await;
    assert_eq!((&lost["created"], lost.get("replaced_identity")), (&json!(0), None));
    fleet.redis.command::<()>(&["FLUSHALL"]).await;
    let new = fleet.json(&["init"]).await;
    assert_ne!(new["identity"], lost["identity"]);
    let mut kept_out = fleet.timer("two");
    kept_out.wait_for_line("DQ-T007", LONG).await;
    let both = [fleet.run(&["doctor", "--json"]).await, fleet.run(&["check", "--json"]).await];
    assert!(agreed(&both[0], &both[1]).contains(&("timers".to_owned(), "CRITICAL")), "{both:?}");
    for part in ["the timers in etcd belong to deployment", "delayq init --replace"] {
        assert!(both.iter().all(|said| said.stdout.contains(part)), "{both:?}");
    }
    let replaced = fleet.json(&["init", "--replace"]).await;
    assert_eq!(
        (&replaced["identity"], &replaced["replaced_identity"]),
        (&new["identity"], &lost["identity"])
    );
    wait_until("the timer to join", LONG, async || fleet.claimed().await == [("two".to_owned(), 4)]).await;
    kept_out.ends_well_by(Signal::TERM, SHORT).await;
}
