//! Outages of one Redis: of the network before it, of the server, and of its data.

use super::{Outage, Run};
use delayq_tests::deployment::settings;
use delayq_tests::proxy::{Direction, Flow, Proxy};
use delayq_tests::redis_server::{RedisOptions, RedisServer};
use std::time::{Duration, Instant};
use tokio::sync::Mutex;
use tokio::time::sleep;

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Every connection is reset, and none is taken.
    Refused,
    /// Nothing arrives; afterwards what was held does.
    BlackHole,
    /// Nothing arrives, and what was connected stays silent for good.
    Stranded,
    /// What is asked arrives, the answers do not.
    Unanswered,
    /// Every connection is reset, once.
    Reset,
    /// Killed, and started again with its data.
    Killed,
    /// Stopped by SIGSTOP.
    Frozen,
    /// All of its data is gone (FLUSHALL), and restored.
    Flushed,
}

const KINDS: [Kind; 8] = [
    Kind::Refused,
    Kind::BlackHole,
    Kind::Stranded,
    Kind::Unanswered,
    Kind::Reset,
    Kind::Killed,
    Kind::Frozen,
    Kind::Flushed,
];

struct Scene {
    server: Mutex<RedisServer>,
    proxy: Proxy,
}

// === impl Scene ===

impl Scene {
    async fn outage(&self, Outage { kind, lasts }: Outage<Kind>) -> Instant {
        let mut server = self.server.lock().await;
        match kind {
            Kind::Refused => {
                self.proxy.refuse().await;
                sleep(lasts).await;
                self.proxy.accept().await;
            }
            Kind::BlackHole => self.hold(None, lasts).await,
            Kind::Stranded => {
                self.proxy.set_both(Flow::Hold);
                sleep(lasts).await;
                self.proxy.strand_open();
                self.proxy.mend().await;
            }
            Kind::Unanswered => self.hold(Some(Direction::Replies), lasts).await,
            Kind::Reset => self.proxy.reset_open(),
            Kind::Killed => {
                server.kill().await;
                sleep(lasts).await;
                server.resume().await;
            }
            Kind::Frozen => {
                server.freeze();
                sleep(lasts).await;
                server.thaw();
            }
            Kind::Flushed => {
                // For clients as FLUSHALL and a backup: everything is gone at once, and back at once.
                server.command::<()>(&["SWAPDB", "0", "1"]).await;
                sleep(lasts).await;
                server.command::<()>(&["FLUSHDB"]).await;
                server.command::<()>(&["SWAPDB", "0", "1"]).await;
            }
        }
        Instant::now()
    }

    async fn hold(&self, only: Option<Direction>, lasts: Duration) {
        match only {
            Some(direction) => self.proxy.set(direction, Flow::Hold),
            None => self.proxy.set_both(Flow::Hold),
        }
        sleep(lasts).await;
        self.proxy.mend().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_goes_on_within_three_seconds_after_each_outage_of_its_one_redis() {
    let server = RedisServer::start_with(RedisOptions::default().append_only("everysec")).await;
    let proxy = Proxy::start_for_redis(&server.address());
    let url = server.url_through(&proxy.address());
    let run = Run::start("one Redis", &format!("[redis]\nurl = '{url}'"), settings(url, 2)).await;
    let scene = Scene { server: Mutex::new(server), proxy };
    run.through(&KINDS, false, async |outage| scene.outage(outage).await, async || ()).await;
}
