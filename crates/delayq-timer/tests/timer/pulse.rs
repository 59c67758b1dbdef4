//! The machine's own pauses, measured by a thread that PINGs Redis and a thread that syncs a file.

use delayq_tests::redis_server::RedisServer;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const SLEEP: Duration = Duration::from_millis(1);
const SYNC_EVERY: Duration = Duration::from_millis(50);

pub(crate) struct Pulse(Arc<Beats>);

#[derive(Default)]
struct Beats {
    ended: AtomicBool,
    pause_us: AtomicU64,
    sync_us: AtomicU64,
}

// === impl Pulse ===

impl Pulse {
    pub(crate) fn start(server: &RedisServer) -> Self {
        let beats = Arc::new(Beats::default());
        let (socket, file) = (server.socket(), server.folder().join("pulse"));
        let (here, there) = (Arc::clone(&beats), Arc::clone(&beats));
        std::thread::spawn(move || here.ask(&socket));
        std::thread::spawn(move || there.sync(&file));
        Self(beats)
    }

    /// The longest time without a turn of the thread or an answer of Redis.
    pub(crate) fn pause(&self) -> Duration {
        Duration::from_micros(self.0.pause_us.load(Ordering::Relaxed))
    }

    /// The longest sync of a page, which etcd waits for at each change.
    pub(crate) fn sync(&self) -> Duration {
        Duration::from_micros(self.0.sync_us.load(Ordering::Relaxed))
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::Relaxed);
    }
}

// === impl Beats ===

impl Beats {
    fn goes_on(&self) -> bool {
        !self.ended.load(Ordering::Relaxed)
    }

    fn ask(&self, socket: &PathBuf) {
        let mut stream = UnixStream::connect(socket).unwrap();
        while self.goes_on() {
            let started = Instant::now();
            std::thread::sleep(SLEEP);
            // A server that a test ended is no pause of the machine.
            if stream.write_all(b"PING\r\n").is_err() || stream.read_exact(&mut [0; 7]).is_err() {
                return;
            }
            self.pause_us.fetch_max(us(started.elapsed().saturating_sub(SLEEP)), Ordering::Relaxed);
        }
    }

    fn sync(&self, path: &PathBuf) {
        let file = File::create(path).unwrap();
        while self.goes_on() {
            let started = Instant::now();
            if file.write_all_at(&[0; 4096], 0).and_then(|()| file.sync_data()).is_err() {
                return;
            }
            self.sync_us.fetch_max(us(started.elapsed()), Ordering::Relaxed);
            std::thread::sleep(SYNC_EVERY);
        }
    }
}

fn us(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
