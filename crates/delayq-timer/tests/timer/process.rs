//! The program itself, in processes of its own: started, stopped, killed, frozen, cramped, and with TLS to etcd.

use crate::bounds::{FROZEN, KILLED, STOPPED};
use crate::drill::Drill;
use crate::etcd_state::secure;
use crate::fleet::Fleet;
use crate::stand::Stand;
use delayq::Admin;
use delayq_tests::binary::Binary;
use delayq_tests::certs::Authority;
use delayq_tests::clock_shim::ClockShim;
use delayq_tests::deadline::{SHORT, wait_until};
use delayq_tests::etcd_server::{EtcdCluster, EtcdOptions};
use delayq_tests::process::{Process, Signal};
use delayq_tests::redis_server::RedisServer;
use delayq_tests::timing::conclusive;
use std::time::{Duration, Instant};

const SHARDS: u16 = 16;

fn timer(redis: &str, shards: u16) -> Binary {
    Binary::new("delayq-timer")
        .env("DELAYQ__REDIS__URL", redis)
        .env("DELAYQ__DEPLOYMENT__SHARDS", shards.to_string())
        .env("DELAYQ__ETCD__ENABLED", "false")
        .env("DELAYQ__ADMIN__LISTEN", "")
        .env("DELAYQ__TIMER__NAME", "alone")
}

fn member(fleet: &Fleet, name: &str) -> Binary {
    let ms = |time: Duration| format!("{}ms", time.as_millis());
    timer(&fleet.stand.server.url(), fleet.stand.shards)
        .env("DELAYQ__TIMER__NAME", name)
        .env("DELAYQ__TIMER__POLL_INTERVAL", ms(fleet.times.poll))
        .env("DELAYQ__ETCD__ENABLED", "true")
        .env("DELAYQ__ETCD__ENDPOINTS", format!("[\"{}\"]", fleet.etcd.endpoints().join("\", \"")))
        .env("DELAYQ__ETCD__LEASE_TTL", ms(fleet.times.lease))
        .env("DELAYQ__ETCD__CALL_DEADLINE", "500ms")
}

async fn owned_by(stand: &Stand, name: &str) -> usize {
    let seen = Admin::new(stand.client.clone())
        .shards()
        .overview_of(&stand.client.shards().shards().collect::<Vec<_>>())
        .await;
    seen.into_iter().filter(|seen| seen.as_ref().unwrap().owner == name).count()
}

async fn beside(drill: &Drill) -> (Process, crate::stand::Running) {
    let process = member(&drill.fleet, "process").start();
    let here = drill.timer("here").await;
    wait_until("the two to share", SHORT, || async {
        let half = usize::from(drill.stand().shards / 2);
        (owned_by(drill.stand(), "process").await, owned_by(drill.stand(), "here").await) == (half, half)
    })
    .await;
    (process, here)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_program_pumps_until_it_is_asked_to_stop_and_gives_its_lock_back() {
    let stand = Stand::new(4).await;
    let mut first = timer(&stand.server.url(), 4).start();
    first.wait_for_line("single mode", SHORT).await;
    let count = stand.put([stand.now_ms().await + 50]).await;
    stand.all_ready(count).await;
    first.ends_well_by(Signal::TERM, SHORT).await;
    let mut next = timer(&stand.server.url(), 4).start();
    next.wait_for_line("started", SHORT).await;
    assert!(!next.tail().contains("waiting for the lock"), "the lock was given back: {}", next.tail());
    next.ends_well_by(Signal::TERM, SHORT).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_without_the_deployment_ends_it_with_a_code() {
    let server = RedisServer::private().await;
    let ended = timer(&server.url(), 4).run(b"", SHORT).await;
    assert_eq!(ended.code, Some(69), "{}", ended.stderr);
    assert!(ended.stderr.contains("DQ-R002"), "{}", ended.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_killed_under_load_is_replaced_within_the_lease_and_two_seconds() {
    conclusive(async || {
        let drill = Drill::new(Fleet::with(SHARDS).await).await;
        let (mut process, here) = beside(&drill).await;
        let load = drill.load().await;
        process.end_by(Signal::KILL, SHORT).await;
        here.owns(SHARDS).await;
        drill.flows().await;
        load.stop().await;
        drill.judge(&KILLED).await.timing
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_stopped_under_load_hands_over_within_two_seconds_and_nothing_is_late() {
    conclusive(async || {
        let drill = Drill::new(Fleet::with(SHARDS).await).await;
        let (mut process, here) = beside(&drill).await;
        let load = drill.load().await;
        let asked = Instant::now();
        process.ends_well_by(Signal::TERM, SHORT).await;
        let took = asked.elapsed();
        here.owns(SHARDS).await;
        drill.flows().await;
        load.stop().await;
        let timing = drill.judge(&STOPPED).await.timing;
        timing.and(drill.within("handing over and ending", took, Duration::from_secs(2)))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_frozen_for_three_leases_moves_nothing_by_its_old_epoch_when_it_wakes() {
    conclusive(async || {
        let drill = Drill::new(Fleet::with(SHARDS).await).await;
        let (mut process, here) = beside(&drill).await;
        let load = drill.load().await;
        process.signal(Signal::STOP);
        let frozen = Instant::now();
        here.owns(SHARDS).await;
        // The time itself is under test.
        tokio::time::sleep_until((frozen + 3 * drill.fleet.times.lease).into()).await;
        let mark = process.mark();
        process.signal(Signal::CONT);
        process.wait_for_line_from(mark, "lease in etcd is gone", SHORT).await;
        wait_until("it to own shards again", SHORT, || async {
            owned_by(drill.stand(), "process").await > 0
        })
        .await;
        drill.flows().await;
        load.stop().await;
        drill.judge(&FROZEN).await.timing
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_killed_at_random_and_started_again_lose_nothing() {
    conclusive(async || {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut dice = fastrand::Rng::with_seed(seed);
        let drill = Drill::new(Fleet::with(SHARDS).await).await;
        let here = drill.timer("here").await;
        let mut processes: Vec<Process> = ["a", "b"].map(|name| member(&drill.fleet, name).start()).into();
        wait_until("all to own some", SHORT, || async { here.metric("delayq_timer_shards") < 7.0 }).await;
        let load = drill.load().await;
        for round in 0..3 {
            // At a random step: a timer wakes, pumps and rests some hundred times a second.
            tokio::time::sleep(Duration::from_millis(dice.u64(..300))).await;
            let chosen = dice.usize(..processes.len());
            processes[chosen].end_by(Signal::KILL, SHORT).await;
            processes[chosen] = member(&drill.fleet, &format!("again-{round}")).start();
        }
        drill.flows().await;
        load.stop().await;
        drill.judge(&KILLED).await.timing
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_whose_own_clock_is_two_days_off_makes_nothing_early_or_late() {
    for days in [2, -2] {
        conclusive(async || {
            let drill = Drill::new(Fleet::with(SHARDS).await).await;
            let clock = ClockShim::new();
            clock.set_offset_ms(days * 86_400_000);
            let binary = clock
                .environment()
                .into_iter()
                .fold(member(&drill.fleet, "off"), |binary, (name, value)| binary.env(name, value));
            let _process = binary.start();
            wait_until("it to own all", SHORT, || async {
                owned_by(drill.stand(), "off").await == usize::from(SHARDS)
            })
            .await;
            let load = drill.load().await;
            load.stop().await;
            drill.judge(&STOPPED).await.timing
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_with_64_file_descriptors_serves_256_shards() {
    conclusive(async || {
        let fleet = Fleet::with(256).await;
        let drill = Drill::new(fleet).await;
        let process = member(&drill.fleet, "cramped").start();
        process.limit_files(64);
        wait_until("it to own all", SHORT, || async { owned_by(drill.stand(), "cramped").await == 256 })
            .await;
        let load = drill.load().await;
        load.stop().await;
        drill.judge(&STOPPED).await.timing
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_share_by_an_etcd_with_tls_and_passwords() {
    conclusive(async || {
        let authority = Authority::new();
        let (server, client) = (authority.server(), authority.sign("timer", &["timer.test"]));
        let ca = authority.authority().display().to_string();
        let options = EtcdOptions::default().tls(&server.certificate, &server.key);
        let mut etcd =
            EtcdCluster::start_with(options.arguments(["--client-cert-auth", "--trusted-ca-file", &ca]))
                .await;
        let (cert, key) = (client.certificate.display().to_string(), client.key.display().to_string());
        let shown = [format!("--cacert={ca}"), format!("--cert={cert}"), format!("--key={key}")];
        etcd.operate_with(shown.clone());
        secure(&mut etcd, &shown.each_ref().map(String::as_str)).await;
        let drill = Drill::new(Fleet::on(Stand::new(SHARDS).await, etcd)).await;
        let secured = |name: &str, password: &str| {
            member(&drill.fleet, name)
                .env("DELAYQ__ETCD__CA", &ca)
                .env("DELAYQ__ETCD__CERT", &cert)
                .env("DELAYQ__ETCD__KEY", &key)
                .env("DELAYQ__ETCD__USERNAME", "timer")
                .env("DELAYQ__ETCD__PASSWORD", password)
        };
        let (mut one, _other) =
            (secured("one", "timer-password").start(), secured("other", "timer-password").start());
        let half = usize::from(SHARDS / 2);
        wait_until("the two to share", SHORT, || async {
            (owned_by(drill.stand(), "one").await, owned_by(drill.stand(), "other").await) == (half, half)
        })
        .await;
        let load = drill.load().await;
        one.ends_well_by(Signal::TERM, SHORT).await;
        drill.flows().await;
        load.stop().await;
        let timing = drill.judge(&STOPPED).await.timing;
        let refused = secured("third", "wrong").run(b"", SHORT).await;
        assert_eq!(refused.code, Some(69), "{}", refused.stderr);
        assert!(refused.stderr.contains("DQ-T") && !refused.stderr.contains("wrong"), "{}", refused.stderr);
        timing
    })
    .await;
}
