//! Several nodes, one away or refusing writes: only the writes of its shards rest, in order.

use super::steps::Resubmitter;
use super::{message, target, topic};
use delayq::protocol::{NodeMap, NodeSettings};
use delayq::spool::SpoolRecord;
use delayq::{Admin, Fate, Settings, UnixMillis};
use delayq_spool::{SpoolSettings, SpoolWriter};
use delayq_tests::deadline::{LONG, within};
use delayq_tests::deployment::{created, settings};
use delayq_tests::folder::Folder;
use delayq_tests::redis_cluster::RedisCluster;
use delayq_tests::redis_nodes::RedisNodes;
use delayq_tests::redis_server::{RedisOptions, RedisServer};
use delayq_tests::stall::Stall;
use delayq_tests::timing::{Timing, conclusive};
use std::time::{Duration, Instant};

const SHARDS: u16 = 12;
const IDS: u64 = 240;
const PATIENT: Duration = Duration::from_secs(3);
/// Far more than a step takes without waiting for a silent node.
const STEP: Duration = Duration::from_secs(1);
/// A few times as long as a compensator considers a node away.
const SILENCE: Duration = Duration::from_secs(4);

struct Spooled {
    admin: Admin,
    spool: SpoolWriter,
    ids: u64,
    resubmitter: Resubmitter,
    _folder: Folder,
}

// === impl Spooled ===

impl Spooled {
    async fn new(settings: Settings) -> Self {
        let (client, admin, _) = created(settings).await;
        let folder = Folder::new("spool");
        let spool = SpoolWriter::open(folder.path(), &SpoolSettings::default()).unwrap();
        let resubmitter = Resubmitter::new(folder.path(), client, 50).await;
        let mut spooled = Self { admin, spool, ids: 0, resubmitter, _folder: folder };
        spooled.add(IDS).await;
        spooled
    }

    async fn add(&mut self, count: u64) {
        let at = UnixMillis::new(1);
        let ids: Vec<String> = (self.ids..self.ids + count).map(|n| format!("m{n}")).collect();
        let put = |id: &String| SpoolRecord::put(&message(id), Fate::NotApplied, at);
        let cancel = |id: &String| SpoolRecord::cancel(&topic(), &target(id), at);
        self.spool.append(ids.iter().map(put).chain(ids.iter().map(cancel)).collect()).await.unwrap();
        self.ids += count;
    }

    async fn goes_on_in_part(&mut self) {
        let mut done = 0;
        let resting = loop {
            let report = self.resubmitter.run_once().await.unwrap();
            assert_eq!((report.rejected, &report.held), (0, &None), "{report:?}");
            done += report.resubmitted;
            if report.at_end {
                break report.resting;
            }
        };
        assert!(done > IDS && resting > 50 && done + resting == 2 * IDS, "{done} done, {resting} rest");
    }

    async fn goes_on(&mut self) {
        let Self { resubmitter, .. } = self;
        within("nothing that rests", LONG, async {
            while resubmitter.stats().await.unwrap().waiting > 0 {
                if resubmitter.run_once().await.unwrap().at_end {
                    resubmitter.try_again();
                }
            }
        })
        .await;
        let numbers = self.admin.topic(&topic()).count().await.unwrap();
        assert_eq!(
            (numbers.accepted, numbers.cancelled),
            (self.ids, self.ids),
            "each cancel came behind its put"
        );
        let stats = self.resubmitter.stats().await.unwrap();
        assert!(stats.rejected == 0 && stats.balances(), "{stats:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_node_that_is_away_keeps_waiting_rests_and_the_others_go_on() {
    let mut cluster = RedisCluster::start_with(RedisOptions::default().append_only("always")).await;
    rests_while_away(settings(cluster.url(), SHARDS), &mut cluster.nodes[0]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_of_several_redises_that_is_away_keeps_waiting_rests_and_the_others_go_on() {
    let mut nodes = RedisNodes::start(SHARDS / 3).await;
    rests_while_away(nodes.settings(), &mut nodes.servers[0]).await;
}

async fn rests_while_away(settings: Settings, node: &mut RedisServer) {
    let mut spooled = Spooled::new(settings).await;
    node.kill().await;
    spooled.goes_on_in_part().await;
    node.resume().await;
    spooled.goes_on().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_node_keeps_waiting_that_answers_but_takes_no_messages_rests_and_the_others_go_on() {
    for (setting, refusing) in [("min-replicas-to-write", "1"), ("maxmemory", "1")] {
        let cluster = RedisCluster::start().await;
        let mut spooled = Spooled::new(settings(cluster.url(), SHARDS)).await;
        let set = async |value| cluster.nodes[0].command::<()>(&["CONFIG", "SET", setting, value]).await;
        set(refusing).await;
        spooled.goes_on_in_part().await;
        set("0").await;
        spooled.goes_on().await;
    }
}

fn patient(settings: Settings) -> Settings {
    let patient = |node: &NodeSettings| NodeSettings {
        link: node.link.clone().deadline(PATIENT).connect_timeout(PATIENT),
        ..node.clone()
    };
    let map = NodeMap::new(settings.nodes.unwrap().nodes().iter().map(patient).collect()).unwrap();
    Settings::of_nodes(map).shards(settings.shards)
}

async fn steps_beside_a_silent_node() -> Timing {
    let nodes = RedisNodes::start(SHARDS / 3).await;
    let mut spooled = Spooled::new(patient(nodes.settings())).await;
    nodes.servers[0].freeze();
    spooled.goes_on_in_part().await;
    let (stall, began, mut longest) = (Stall::watch(), Instant::now(), Duration::ZERO);
    let mut pace = tokio::time::interval(Duration::from_millis(50));
    while began.elapsed() < SILENCE {
        pace.tick().await;
        spooled.add(SHARDS.into()).await;
        spooled.resubmitter.try_again();
        let step = Instant::now();
        let report = spooled.resubmitter.run_once().await.unwrap();
        longest = longest.max(step.elapsed());
        assert_eq!((report.rejected, report.held), (0, None));
    }
    nodes.servers[0].thaw();
    spooled.goes_on().await;
    println!("beside a silent node, a step takes {longest:?} at most");
    stall.judge("a step beside a silent node", longest, STEP)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_look_at_a_silent_node_does_not_hold_up_the_writes_to_the_others() {
    conclusive(steps_beside_a_silent_node).await;
}
