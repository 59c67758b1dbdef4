//! A Redis Cluster, or several Redises, of which a node is away, or takes no messages: the writes of its shards rest, in
//! order, and all others go on.

use super::{message, reader, target, topic};
use delayq::spool::SpoolRecord;
use delayq::{Admin, Fate, Settings, UnixMillis};
use delayq_compensator::Resubmitter;
use delayq_spool::{SpoolSettings, SpoolWriter};
use delayq_tests::deadline::{LONG, within};
use delayq_tests::deployment::{created, settings};
use delayq_tests::folder::Folder;
use delayq_tests::redis_cluster::RedisCluster;
use delayq_tests::redis_nodes::RedisNodes;
use delayq_tests::redis_server::{RedisOptions, RedisServer};

const SHARDS: u16 = 12;
const IDS: u64 = 240;

/// A deployment of several nodes, and a spool with writes of all shards.
struct Spooled {
    admin: Admin,
    resubmitter: Resubmitter,
    _folder: Folder,
}

// === impl Spooled ===

impl Spooled {
    async fn new(settings: Settings) -> Self {
        let (client, admin, _) = created(settings).await;
        let folder = Folder::new("spool");
        let spool = SpoolWriter::open(folder.path(), &SpoolSettings::default()).unwrap();
        let (at, ids) = (UnixMillis::new(1), (0..IDS).map(|n| format!("m{n}")).collect::<Vec<_>>());
        let put = |id: &String| SpoolRecord::put(&message(id), Fate::NotApplied, at);
        let cancel = |id: &String| SpoolRecord::cancel(&topic(), &target(id), at);
        spool.append(ids.iter().map(put).chain(ids.iter().map(cancel)).collect()).await.unwrap();
        let resubmitter = Resubmitter::new(reader(folder.path()), client, 50);
        Self { admin, resubmitter, _folder: folder }
    }

    /// Carries out what can be: some of it rests.
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

    /// Carries out what rests.
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
        let numbers = self.admin.count(&topic()).await.unwrap();
        assert_eq!((numbers.accepted, numbers.cancelled), (IDS, IDS), "each cancel came behind its put");
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
