//! A monitor of a Redis: every command, including commands inside scripts, in order.

use crate::deadline::{SHORT, wait_until, within};
use crate::redis_server::RedisServer;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::task::JoinHandle;

/// A command, as `MONITOR` reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// True if a script ran the command; the script's own call precedes it.
    pub in_script: bool,
    /// The name in lower case.
    pub name: String,
    /// The arguments.
    pub args: Vec<Vec<u8>>,
}

/// Every command of a server; ends with the server or on drop.
#[derive(Debug)]
pub struct RedisMonitor {
    seen: Arc<Mutex<Vec<Seen>>>,
    task: JoinHandle<()>,
}

// === impl Seen ===

impl Seen {
    /// An argument as text, if present and valid UTF-8.
    #[must_use]
    pub fn text(&self, place: usize) -> Option<&str> {
        std::str::from_utf8(self.args.get(place)?).ok()
    }

    /// `1700000000.123456 [0 lua] "HGET" "key" "field"`.
    fn parse(line: &str) -> Option<Self> {
        let (head, words) = line.split_once("] ")?;
        let mut words = words_of(words)?.into_iter();
        let name = String::from_utf8_lossy(&words.next()?).to_lowercase();
        Some(Self { in_script: head.ends_with(" lua"), name, args: words.collect() })
    }
}

// === impl RedisMonitor ===

impl RedisMonitor {
    /// Starts monitoring.
    pub async fn start(server: &RedisServer) -> Self {
        let stream = UnixStream::connect(server.socket()).await;
        let mut stream =
            BufReader::new(stream.unwrap_or_else(|e| panic!("redis-server took no onlooker: {e}")));
        stream.write_all(b"MONITOR\r\n").await.expect("a connection just made can be written to");
        let mut line = String::new();
        within("MONITOR's answer", SHORT, stream.read_line(&mut line)).await.expect("the server answers");
        assert_eq!(line, "+OK\r\n", "redis-server refused an onlooker");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            let mut lines = stream.lines();
            while let Ok(Some(line)) = lines.next_line().await {
                lock(&noted).extend(Seen::parse(&line));
            }
        });
        Self { seen, task }
    }

    /// Everything up to now: waits until a marker command appears.
    pub async fn seen(&self, server: &RedisServer) -> Vec<Seen> {
        let mark = format!("seen up to {:?}", std::time::Instant::now());
        let _: String = server.command(&["ECHO", &mark]).await;
        wait_until("the onlooker to see the last command", SHORT, || {
            let arrived = lock(&self.seen).iter().rev().any(|seen| seen.text(0) == Some(&mark));
            std::future::ready(arrived)
        })
        .await;
        lock(&self.seen).clone()
    }
}

impl Drop for RedisMonitor {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lock(seen: &Mutex<Vec<Seen>>) -> MutexGuard<'_, Vec<Seen>> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The words of a line, each in quotes, with unprintable bytes escaped.
fn words_of(text: &str) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'"' {
            continue;
        }
        let mut word = Vec::new();
        loop {
            match bytes.next()? {
                b'"' => break,
                b'\\' => word.push(unescaped(&mut bytes)?),
                plain => word.push(plain),
            }
        }
        words.push(word);
    }
    Some(words)
}

fn unescaped(bytes: &mut impl Iterator<Item = u8>) -> Option<u8> {
    Some(match bytes.next()? {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'a' => 7,
        b'b' => 8,
        b'x' => {
            let mut digit = || char::from(bytes.next()?).to_digit(16);
            u8::try_from(digit()? * 16 + digit()?).ok()?
        }
        other => other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_taken_apart() {
        let seen =
            Seen::parse(r#"1700000000.123456 [0 127.0.0.1:6] "EVALSHA" "a\"b" "\x00\\\n" """#).unwrap();
        assert_eq!((seen.in_script, seen.name.as_str()), (false, "evalsha"));
        assert_eq!(seen.args, [b"a\"b".to_vec(), vec![0, b'\\', b'\n'], vec![]]);
        assert!(Seen::parse(r#"1.2 [0 lua] "GET" "k""#).unwrap().in_script);
        assert_eq!(Seen::parse("+OK"), None);
    }

    #[tokio::test]
    async fn what_a_script_does_is_seen_behind_its_call() {
        let server = RedisServer::private().await;
        let monitor = RedisMonitor::start(&server).await;
        let () = server.command(&["EVAL", "redis.call('SET', KEYS[1], 'v')", "1", "k"]).await;
        let seen = monitor.seen(&server).await;
        let names: Vec<(bool, &str)> = seen
            .iter()
            .map(|seen| (seen.in_script, seen.name.as_str()))
            .filter(|s| s.1 != "client")
            .collect();
        let call = names.iter().position(|seen| *seen == (false, "eval")).expect("the call was seen");
        assert_eq!(names[call + 1], (true, "set"), "{names:?}");
    }
}
