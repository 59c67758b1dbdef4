//! A shard without the client: any call, a clock that the test sets, and a dump of every key.

use crate::snapshot::Snapshot;
use delayq::Namespace;
use delayq::protocol::{Keys, Scripts, ShardId, Verb};
use delayq_tests::redis_server::SharedRedis;
use redis::Value;
use redis::aio::MultiplexedConnection;
use std::sync::Arc;

/// A time by which tests set the clock, in ms: a full hour, in the past.
pub(crate) const NOW: u64 = 1_763_697_600_000;

/// Dumps every key of a shard with type and content, as one string: a client would spend most of the run on parsing
/// nested values. The length in 4 bytes precedes each part, and the number of parts precedes a key's parts.
const DUMP: &str = r"
local base, out = string.sub(KEYS[1], 1, -5), {}
local function say(text)
  out[#out + 1] = struct.pack('>I4', #text)
  out[#out + 1] = text
end
for _, key in ipairs(redis.call('KEYS', base .. '*')) do
  local kind, held = redis.call('TYPE', key).ok, {}
  if key == base .. 'clock' then held = {}
  elseif kind == 'string' then held = { redis.call('GET', key) }
  elseif kind == 'list' then held = redis.call('LRANGE', key, 0, -1)
  elseif kind == 'zset' then held = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  elseif kind == 'hash' then held = redis.call('HGETALL', key)
  elseif kind == 'stream' then
    for _, event in ipairs(redis.call('XRANGE', key, '-', '+')) do
      held[#held + 1], held[#held + 2], held[#held + 3] = event[1], event[2][2], event[2][4]
    end
  end
  say(string.sub(key, #base + 1))
  say(kind)
  out[#out + 1] = struct.pack('>I4', #held)
  for i = 1, #held do say(held[i]) end
end
return table.concat(out)
";

/// The test's clock is the key `clock` of the shard, in µs.
const CLOCK: &str = "\
local now_us = tonumber(redis.call('GET', string.sub(KEYS[1], 1, -5) .. 'clock'))
local now = (now_us - now_us % 1000) / 1000
";

/// A script's answer with flattened items and numbers as text, or the error.
pub(crate) type Answer = Result<Vec<Vec<u8>>, String>;

pub(crate) struct BareShard {
    connection: MultiplexedConnection,
    scripts: Arc<Scripts>,
    dump: redis::Script,
    meta: String,
    never: String,
    base: String,
    /// Reused by [`Self::snapshot`]: most queries, and many calls, leave the shard unchanged.
    last: (Vec<u8>, Arc<Snapshot>),
    /// In µs; `None` for the server's own clock.
    pub(crate) clock_us: Option<u64>,
    /// The first argument of every call: the layout, and the replicas to wait for.
    pub(crate) layout: &'static str,
}

/// The scripts with the test's clock, their publications recorded in the list `said`, and the `extra`
/// replacements, each (file, required text, replacement).
pub(crate) fn scripts_with(extra: &[(&str, &str, &str)]) -> Arc<Scripts> {
    let publish = ["redis.call('SPUBLISH', ", "redis.pcall('SPUBLISH', "];
    let write_down = "local _ = (function(c, m) redis.call('RPUSH', string.sub(KEYS[1], 1, -5) .. 'said', c .. '=' .. m) end)(";
    for (file, from, _) in extra {
        let found = std::cell::Cell::new(false);
        Scripts::swapped(&|name, text| {
            found.set(found.get() || (name == *file && text.contains(from)));
            None
        });
        assert!(found.get(), "lua/{file}.lua does not say {from:?} any more");
    }
    Arc::new(Scripts::swapped(&|name, text| {
        let published = || publish.iter().fold(text.to_owned(), |text, call| text.replace(call, write_down));
        let mut text = if name == "lib/now" { CLOCK.to_owned() } else { published() };
        for (file, from, to) in extra {
            if name == *file {
                text = text.replace(from, to);
            }
        }
        (name != "probe").then_some(text)
    }))
}

// === impl BareShard ===

impl BareShard {
    /// The shard need not exist.
    pub(crate) async fn uncreated(server: &SharedRedis, namespace: &str, scripts: Arc<Scripts>) -> Self {
        let meta = Keys::new(Namespace::new(namespace).unwrap()).meta(ShardId::new(0));
        Self::over(server.connect_to(&meta).await, namespace, scripts)
    }

    pub(crate) fn over(connection: MultiplexedConnection, namespace: &str, scripts: Arc<Scripts>) -> Self {
        let keys = Keys::new(Namespace::new(namespace).unwrap());
        let shard = ShardId::new(0);
        let (meta, never, base) = (keys.meta(shard), keys.never(shard), keys.base(shard));
        Self {
            connection,
            scripts,
            dump: redis::Script::new(DUMP),
            meta,
            never,
            base,
            last: Default::default(),
            clock_us: None,
            layout: "1",
        }
    }

    pub(crate) async fn create(server: &SharedRedis, namespace: &str, scripts: Arc<Scripts>) -> Self {
        let mut shard = Self::uncreated(server, namespace, scripts).await;
        shard.create_again().await;
        shard
    }

    pub(crate) async fn create_again(&mut self) {
        let created = self.call(Verb::Init, &[b"0".as_slice(), b"1"]).await.unwrap();
        assert_eq!(created, [b"created"]);
    }

    pub(crate) fn key(&self, name: &str) -> String {
        format!("{}{name}", self.base)
    }

    /// Sends a plain command; `~` in front of an argument stands for the shard's base.
    pub(crate) async fn command(&mut self, words: &[&[u8]]) -> Value {
        let mut command = redis::Cmd::new();
        for word in words {
            match word.strip_prefix(b"~") {
                Some(name) => command.arg([self.base.as_bytes(), name].concat()),
                None => command.arg(*word),
            };
        }
        command.query_async(&mut self.connection).await.unwrap()
    }

    pub(crate) async fn call(&mut self, verb: Verb, args: &[impl AsRef<[u8]>]) -> Answer {
        let mut pipe = redis::pipe();
        self.add(&mut pipe, verb, args);
        let mut values = self.run(&pipe).await;
        flat(values.pop().unwrap())
    }

    /// One round trip for the call and the dump.
    pub(crate) async fn step(&mut self, verb: Verb, args: &[impl AsRef<[u8]>]) -> (Answer, Arc<Snapshot>) {
        let mut pipe = redis::pipe();
        self.add(&mut pipe, verb, args);
        self.add_dump(&mut pipe);
        let mut values = self.run(&pipe).await;
        let snapshot = self.read(values.pop());
        (flat(values.pop().unwrap()), snapshot)
    }

    pub(crate) async fn snapshot(&mut self) -> Arc<Snapshot> {
        let mut pipe = redis::pipe();
        self.add_dump(&mut pipe);
        let dump = self.run(&pipe).await.pop();
        self.read(dump)
    }

    /// Replaces the key by a value of a type that no shard uses.
    pub(crate) async fn break_key(&mut self, key: &str) {
        self.rename(key, &format!("aside:{key}")).await;
        self.command(&[b"SADD", format!("~{key}").as_bytes(), b"x"]).await;
    }

    pub(crate) async fn mend_key(&mut self, key: &str) {
        self.command(&[b"DEL", format!("~{key}").as_bytes()]).await;
        self.rename(&format!("aside:{key}"), key).await;
    }

    async fn rename(&mut self, from: &str, to: &str) {
        let script =
            b"if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('RENAME', KEYS[1], KEYS[2]) end return 0";
        let (from, to) = (format!("~{from}"), format!("~{to}"));
        self.command(&[b"EVAL", script, b"2", from.as_bytes(), to.as_bytes()]).await;
    }

    pub(crate) async fn remove(&mut self) {
        let script =
            "local k = redis.call('KEYS', ARGV[1]) if #k > 0 then redis.call('DEL', unpack(k)) end return 0";
        let pattern = self.key("*");
        self.command(&[b"EVAL", script.as_bytes(), b"0", pattern.as_bytes()]).await;
    }

    fn read(&mut self, dump: Option<Value>) -> Arc<Snapshot> {
        let Some(Ok(Value::BulkString(bytes))) = dump.map(Value::extract_error) else {
            panic!("a dump is a string")
        };
        if bytes != self.last.0 {
            let snapshot = Arc::new(Snapshot::read(&bytes));
            self.last = (bytes, snapshot);
        }
        Arc::clone(&self.last.1)
    }

    fn add_dump(&self, pipe: &mut redis::Pipeline) {
        pipe.cmd("EVALSHA").arg(self.dump.get_hash()).arg(1).arg(&self.meta);
    }

    fn add(&self, pipe: &mut redis::Pipeline, verb: Verb, args: &[impl AsRef<[u8]>]) {
        if let Some(clock) = self.clock_us {
            pipe.cmd("SET").arg(self.key("clock")).arg(clock);
        }
        let command =
            pipe.cmd("EVALSHA").arg(&self.scripts.get(verb).sha).arg(2).arg(&self.meta).arg(&self.never);
        command.arg(self.layout);
        for arg in args {
            command.arg(arg.as_ref());
        }
    }

    async fn run(&mut self, pipe: &redis::Pipeline) -> Vec<Value> {
        let count = pipe.cmd_iter().count();
        let mut values = self.connection.send_packed_commands(pipe, 0, count).await.unwrap();
        let unknown = |value: &Value| matches!(value, Value::ServerError(e) if e.code() == "NOSCRIPT");
        if values.iter().any(unknown) {
            let mut load = redis::pipe();
            for &verb in Verb::ALL {
                load.cmd("SCRIPT").arg("LOAD").arg(&self.scripts.get(verb).source);
            }
            load.cmd("SCRIPT").arg("LOAD").arg(DUMP);
            let loaded: redis::RedisResult<Vec<String>> = load.query_async(&mut self.connection).await;
            loaded.unwrap();
            values = self.connection.send_packed_commands(pipe, 0, count).await.unwrap();
        }
        values
    }
}

fn flat(value: Value) -> Answer {
    let value = value.extract_error().map_err(|error| {
        format!("{} {}", error.code().unwrap_or_default(), error.detail().unwrap_or_default())
    })?;
    let mut items = Vec::new();
    push_flat(value, &mut items);
    Ok(items)
}

fn push_flat(value: Value, items: &mut Vec<Vec<u8>>) {
    match value {
        Value::Array(values) => values.into_iter().for_each(|value| push_flat(value, items)),
        Value::BulkString(bytes) => items.push(bytes),
        Value::SimpleString(text) => items.push(text.into_bytes()),
        Value::Int(number) => items.push(number.to_string().into_bytes()),
        other => items.push(format!("{other:?}").into_bytes()),
    }
}
