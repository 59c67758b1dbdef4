//! Outages of a single Redis: of the network, of the server, and of its data.

use super::Scene;
use crate::proxy::{Direction, Flow, Proxy};
use crate::redis_server::{RedisOptions, RedisServer};
use std::time::{Duration, Instant};
use tokio::sync::Mutex;
use tokio::time::sleep;

/// An outage of a single Redis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Every connection is reset, and new ones are refused.
    Refused,
    /// Nothing arrives until the end, when held bytes arrive.
    BlackHole,
    /// Nothing arrives, and existing connections stay silent for good.
    Stranded,
    /// Requests arrive, answers do not.
    Unanswered,
    /// Every connection is reset, once.
    Reset,
    /// Killed, and restarted with its data.
    Killed,
    /// Stopped by SIGSTOP.
    Frozen,
    /// All data is removed (FLUSHALL), then restored.
    Flushed,
}

/// A Redis with an append-only file, behind a proxy.
#[derive(Debug)]
pub struct OneRedisScene {
    server: Mutex<RedisServer>,
    proxy: Proxy,
}

// === impl OneRedisScene ===

impl Scene for OneRedisScene {
    type Kind = Kind;
    const NAME: &'static str = "one Redis";
    const KINDS: &'static [Kind] = &[
        Kind::Refused,
        Kind::BlackHole,
        Kind::Stranded,
        Kind::Unanswered,
        Kind::Reset,
        Kind::Killed,
        Kind::Frozen,
        Kind::Flushed,
    ];
    const OF_CLIENTS: &'static [Kind] = &[Kind::Stranded, Kind::Reset, Kind::Killed, Kind::Frozen];
    const SHARDS: u16 = 8;
    const LOSES: bool = false;

    async fn start() -> Self {
        let server = RedisServer::start_with(RedisOptions::default().append_only("everysec")).await;
        let proxy = Proxy::start_for_redis(&server.address());
        Self { server: Mutex::new(server), proxy }
    }

    fn url(&self) -> String {
        format!("redis://{}", self.proxy.address())
    }

    async fn outage(&self, kind: Kind, lasts: Duration) -> Instant {
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
                // To clients this equals FLUSHALL and a restore: everything disappears at once, and returns at once.
                server.command::<()>(&["SWAPDB", "0", "1"]).await;
                sleep(lasts).await;
                server.command::<()>(&["FLUSHDB"]).await;
                server.command::<()>(&["SWAPDB", "0", "1"]).await;
            }
        }
        Instant::now()
    }

    /// Outages leave nothing behind.
    async fn mend(&self) {}
}

impl OneRedisScene {
    async fn hold(&self, only: Option<Direction>, lasts: Duration) {
        match only {
            Some(direction) => self.proxy.set(direction, Flow::Hold),
            None => self.proxy.set_both(Flow::Hold),
        }
        sleep(lasts).await;
        self.proxy.mend().await;
    }
}
