//! Writes that cannot be carried out rest alone, although Redis is usable.

use super::steps::{Report, Resubmitter};
use super::{FAR, Host, message, target, topic};
use delayq::spool::SpoolRecord;
use delayq::{Admin, Fate, Message, Topic, UnixMillis};
use delayq_compensator::{CompensatorConfig, Deps, SourcesMetrics, build};
use delayq_service::{Metrics, Readiness, Shutdown};
use delayq_spool::{Retried, Settled, SpoolReader, SpoolStats};
use delayq_tests::deadline::{LONG, SHORT, wait_until, within};
use std::time::{Duration, Instant};

const RECORDS: u64 = 400;
const BROKEN: &str = "{dq:2}:meta";
const AWAY: &str = "{dq:2}:away";

async fn rename(host: &Host, from: &str, to: &str) {
    let _: String = host.deployment.server.command(&["RENAME", from, to]).await;
}

async fn stored(host: &Host) -> (u64, u64) {
    let numbers = Admin::new(host.deployment.client.clone()).topic(&topic()).count().await.unwrap();
    (numbers.accepted, numbers.cancelled)
}

fn stats(host: &Host) -> SpoolStats {
    SpoolReader::open_beside(host.folder.path()).unwrap().stats().unwrap()
}

fn deps(host: &Host) -> Deps {
    Deps {
        client: host.deployment.client.clone(),
        spool: host.folder.path().to_owned(),
        holder: "the test".to_owned(),
        metrics: SourcesMetrics::register(&Metrics::new()),
        readiness: Readiness::new(),
    }
}

async fn spool(host: &Host) {
    let (at, ids) = (UnixMillis::new(1), (0..RECORDS).map(|n| format!("m{n}")).collect::<Vec<_>>());
    let put = |id: &String| SpoolRecord::put(&message(id), Fate::NotApplied, at);
    let cancel = |id: &String| SpoolRecord::cancel(&topic(), &target(id), at);
    host.spool.append(ids.iter().map(put).chain(ids.iter().map(cancel)).collect()).await.unwrap();
}

#[tokio::test]
async fn a_shard_that_is_missing_holds_up_its_own_messages_alone() {
    let host = Host::start().await;
    spool(&host).await;
    rename(&host, BROKEN, AWAY).await;
    // Smaller than the number of resting records of one shard: no full batch may block the next.
    let mut resubmitter = Resubmitter::new(host.folder.path(), host.deployment.client.clone(), 20).await;
    let mut done = 0;
    let resting = loop {
        let report = resubmitter.run_once().await.unwrap();
        assert_eq!((report.rejected, &report.held), (0, &None), "{report:?}");
        if report.at_end {
            break report.resting;
        }
        done += report.resubmitted;
    };
    assert!(done > RECORDS && resting > 40 && done + resting == 2 * RECORDS, "{done} done, {resting} rest");
    assert!(resubmitter.resting().unwrap().contains("shard 2"), "{:?}", resubmitter.resting());

    rename(&host, AWAY, BROKEN).await;
    resubmitter.try_again();
    let mut rested = Report::default();
    while !rested.at_end {
        rested = resubmitter.run_once().await.unwrap();
    }
    assert_eq!(rested.resting, 0);
    assert_eq!(stored(&host).await, (RECORDS, RECORDS), "each cancel came behind its put");
    let stats = stats(&host);
    assert!(stats.waiting == 0 && stats.rejected == 0 && stats.balances(), "{stats:?}");
}

/// Steps to the end of the readable records; returns the numbers of resting and of sent records.
async fn pass(resubmitter: &mut Resubmitter) -> (u64, u64) {
    let mut sent = 0;
    loop {
        let report = resubmitter.run_once().await.unwrap();
        assert_eq!((report.rejected, &report.held), (0, &None), "{report:?}");
        sent += report.sent;
        if report.at_end {
            return (report.resting, sent);
        }
    }
}

#[tokio::test]
async fn however_many_rest_few_of_each_cause_are_tried_again_until_one_of_them_can_be_carried_out() {
    let host = Host::start().await;
    rename(&host, BROKEN, AWAY).await;
    spool(&host).await;
    let mut resubmitter = host.resubmitter().await;
    let (resting, _) = pass(&mut resubmitter).await;
    assert!(resting > 40, "{resting}");
    for _ in 0..3 {
        resubmitter.try_again();
        assert_eq!(pass(&mut resubmitter).await, (resting, 16));
    }
    // A record that an operator returned to the queue is not among the resting records, and its number finds
    // the record.
    let mut beside = SpoolReader::open_beside(host.folder.path()).unwrap();
    let last = beside.waiting(0, 1000).unwrap().pop().unwrap().seq;
    let fine = SpoolRecord::put(&message("fine"), Fate::NotApplied, UnixMillis::new(1));
    host.spool.append(vec![fine]).await.unwrap();
    let fine = beside.waiting(last, 1).unwrap().pop().unwrap().seq;
    let aside = Settled { rejected: vec![(fine, "for now".to_owned())], ..Settled::default() };
    beside.note(&aside).unwrap();
    host.spool.append(vec![SpoolRecord::cancel(&topic(), &target("m0"), UnixMillis::new(1))]).await.unwrap();
    let (resting, _) = pass(&mut resubmitter).await;
    assert_eq!(beside.retry(fine, false).unwrap(), Retried::Waits);
    resubmitter.try_again();
    let (still, sent) = pass(&mut resubmitter).await;
    assert!(still <= resting + 1 && sent > 16, "all are tried: {still} of {resting} rest, {sent} were sent");
    let mut most = 0;
    for _ in 0..61 {
        resubmitter.try_again();
        most = most.max(pass(&mut resubmitter).await.1);
    }
    assert!(most > 40, "{most}");

    rename(&host, AWAY, BROKEN).await;
    resubmitter.try_again();
    assert_eq!(pass(&mut resubmitter).await.0, 0);
    let stats = stats(&host);
    assert!(stats.waiting == 0 && stats.rejected == 0 && stats.balances(), "{stats:?}");
}

#[tokio::test]
async fn a_try_of_what_rests_keeps_no_backlog_from_being_read() {
    let host = Host::start().await;
    rename(&host, BROKEN, AWAY).await;
    spool(&host).await;
    // More steps than partial tries before a try of all records.
    let mut resubmitter = Resubmitter::new(host.folder.path(), host.deployment.client.clone(), 4).await;
    let (mut done, mut steps) = (0, 0);
    let resting = loop {
        resubmitter.try_again();
        let report = resubmitter.run_once().await.unwrap();
        done += report.resubmitted;
        steps += 1;
        assert!(steps < RECORDS, "{done} done of {}", 2 * RECORDS);
        if report.at_end {
            break report.resting;
        }
    };
    assert_eq!(done + resting, 2 * RECORDS, "all were read");
    // An outage forgets the resting records, which are read again despite the pending try.
    rename(&host, AWAY, BROKEN).await;
    resubmitter.try_again();
    resubmitter.try_again();
    assert_eq!(pass(&mut resubmitter).await.0, 0);
    assert_eq!(stats(&host).waiting, 0);
}

#[tokio::test]
async fn a_redis_without_any_shard_holds_up_everything_in_order() {
    let host = Host::start().await;
    spool(&host).await;
    let _: String = host.deployment.server.command(&["FLUSHALL"]).await;
    let mut resubmitter = host.resubmitter().await;
    for _ in 0..2 {
        let report = resubmitter.run_once().await.unwrap();
        assert!(report.held.is_some() && report.resubmitted == 0, "{report:?}");
    }
    assert_eq!(stats(&host).waiting, 2 * RECORDS);
}

#[tokio::test]
async fn the_running_compensator_serves_the_others_and_retries_what_rests() {
    let host = Host::start().await;
    rename(&host, BROKEN, AWAY).await;
    spool(&host).await;
    let shutdown = Shutdown::new();
    let built = build(CompensatorConfig::default(), deps(&host)).await.unwrap();
    let running = tokio::spawn(built.run(shutdown.clone()));
    wait_until("what can be done", LONG, async || stats(&host).replayed > RECORDS).await;
    let before = stats(&host).replayed;
    let at = UnixMillis::new(1);
    let late = (0..40).map(|n| SpoolRecord::put(&message(&format!("late{n}")), Fate::NotApplied, at));
    host.spool.append(late.collect()).await.unwrap();
    wait_until("those that came later", LONG, async || stats(&host).replayed > before + 10).await;
    assert!(stats(&host).waiting > 40);
    rename(&host, AWAY, BROKEN).await;
    wait_until("an empty spool", LONG, async || stats(&host).waiting == 0).await;
    assert_eq!(stored(&host).await, (RECORDS + 40, RECORDS));
    shutdown.request();
    within("the compensator's end", SHORT, running).await.unwrap().unwrap();
}

#[tokio::test]
async fn what_a_command_that_is_denied_within_a_script_refuses_rests_until_it_is_allowed() {
    let host = Host::start().await;
    spool(&host).await;
    let allow = async |rule: &str| {
        let () = host.deployment.server.command(&["ACL", "SETUSER", "default", rule]).await;
    };
    let mut resubmitter = host.resubmitter().await;
    // For `zadd` the script refuses each message; `hincrby` ends the whole call.
    for command in ["zadd", "hincrby"] {
        allow(&format!("-{command}")).await;
        resubmitter.try_again();
        let report = loop {
            let report = resubmitter.run_once().await.unwrap();
            assert_eq!((report.resubmitted, report.rejected), (0, 0), "{command}: {report:?}");
            if report.at_end || report.held.is_some() {
                break report;
            }
        };
        assert!(report.held.is_some() || report.resting == 2 * RECORDS, "{command}: {report:?}");
        allow(&format!("+{command}")).await;
    }
    resubmitter.try_again();
    while !resubmitter.run_once().await.unwrap().at_end {}
    assert_eq!(stored(&host).await, (RECORDS, RECORDS));
    assert_eq!((stats(&host).waiting, stats(&host).rejected), (0, 0));
}

#[tokio::test]
async fn a_topic_whose_buckets_are_broken_rests_alone() {
    let host = Host::start().await;
    let hour = FAR.get() / 3_600_000 + 10;
    let broken = |id: u64| {
        let message = Message::new(Topic::new("broken").unwrap(), "x").id(format!("b{id}")).unwrap();
        message.at(UnixMillis::new(hour * 3_600_000))
    };
    for id in 0..40 {
        host.present(broken(id)).await;
    }
    let buckets: Vec<String> = host.deployment.server.command(&["KEYS", &format!("*:b:*:{hour}")]).await;
    assert_eq!(buckets.len(), 4, "one in each shard: {buckets:?}");
    for bucket in &buckets {
        rename(&host, bucket, &format!("{bucket}:away")).await;
        let _: String = host.deployment.server.command(&["SET", bucket, "broken"]).await;
    }
    let records = (40..80).map(|id| SpoolRecord::put(&broken(id), Fate::NotApplied, UnixMillis::new(1)));
    host.spool.append(records.collect()).await.unwrap();
    spool(&host).await;

    let mut resubmitter = host.resubmitter().await;
    let report = loop {
        let report = resubmitter.run_once().await.unwrap();
        assert_eq!((report.rejected, &report.held), (0, &None), "{report:?}");
        if report.at_end {
            break report;
        }
    };
    assert_eq!(report.resting, 40);
    assert_eq!(stored(&host).await, (RECORDS, RECORDS), "all of the other topic");
    for bucket in &buckets {
        rename(&host, &format!("{bucket}:away"), bucket).await;
    }
    resubmitter.try_again();
    while !resubmitter.run_once().await.unwrap().at_end {}
    let stats = stats(&host);
    assert!(stats.waiting == 0 && stats.rejected == 0 && stats.balances(), "{stats:?}");
}

#[tokio::test]
async fn a_compensator_resubmits_no_more_than_its_rate() {
    let host = Host::start().await;
    spool(&host).await;
    let shutdown = Shutdown::new();
    let config = CompensatorConfig { rate: 200, ..CompensatorConfig::default() };
    let began = Instant::now();
    let running = tokio::spawn(build(config, deps(&host)).await.unwrap().run(shutdown.clone()));
    wait_until("an empty spool", LONG, async || stats(&host).waiting == 0).await;
    // The first 200 go at once, the other 600 take a second for each 200. A busy machine only adds time.
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(3), "{took:?}");
    shutdown.request();
    within("the compensator's end", SHORT, running).await.unwrap().unwrap();
}
