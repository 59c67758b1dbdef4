//! One shard spoken to without the client: any script with any arguments, a clock that the test sets, and a look at
//! every key.

use crate::snapshot::Snapshot;
use delayq_core::{Keys, Namespace, Scripts, ShardId, Verb};
use delayq_tests::redis_server::RedisServer;
use redis::{Value, aio::MultiplexedConnection};
use std::sync::Arc;

/// Every key of a shard with its type and what it holds, as one flat answer.
const DUMP: &str = r"
local base, out = string.sub(KEYS[1], 1, -5), {}
for _, key in ipairs(redis.call('KEYS', base .. '*')) do
  local kind, held = redis.call('TYPE', key).ok, nil
  if kind == 'string' then held = { redis.call('GET', key) }
  elseif kind == 'list' then held = redis.call('LRANGE', key, 0, -1)
  elseif kind == 'zset' then held = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  elseif kind == 'hash' then held = redis.call('HGETALL', key)
  else held = {} end
  out[#out + 1] = { string.sub(key, #base + 1), kind, held }
end
return out
";

/// The test's clock: the key `clock` of the shard, in µs.
const CLOCK: &str = "\
local now_us = tonumber(redis.call('GET', string.sub(KEYS[1], 1, -5) .. 'clock'))
local now = (now_us - now_us % 1000) / 1000
";

/// What a script answered: its items flattened, numbers as text; or the error.
pub(crate) type Answer = Result<Vec<Vec<u8>>, String>;

/// A shard of its own namespace.
pub(crate) struct BareShard {
    connection: MultiplexedConnection,
    scripts: Arc<Scripts>,
    meta: String,
    never: String,
    base: String,
    /// What the scripts take for now, in µs; `None`: the server's own clock.
    pub(crate) clock_us: Option<u64>,
}

/// The scripts with the test's clock, with what they would publish written down in `said`, and with `extra` swaps
/// on top, each (file, text that must be there, text in its place).
pub(crate) fn scripts_with(extra: &[(&str, &str, &str)]) -> Arc<Scripts> {
    let publish = "redis.call('SPUBLISH', ";
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
        let mut text = if name == "lib/now" { CLOCK.to_owned() } else { text.replace(publish, write_down) };
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
    /// A shard that exists already, or not at all.
    pub(crate) async fn uncreated(server: &RedisServer, namespace: &str, scripts: Arc<Scripts>) -> Self {
        let keys = Keys::new(Namespace::new(namespace).unwrap());
        let shard = ShardId::new(0);
        let (meta, never, base) = (keys.meta(shard), keys.never(shard), keys.base(shard));
        Self { connection: server.connect().await, scripts, meta, never, base, clock_us: None }
    }

    /// A new shard.
    pub(crate) async fn create(server: &RedisServer, namespace: &str, scripts: Arc<Scripts>) -> Self {
        let mut shard = Self::uncreated(server, namespace, scripts).await;
        shard.create_again().await;
        shard
    }

    /// Creates it on an empty Redis.
    pub(crate) async fn create_again(&mut self) {
        let created = self.call(Verb::Init, &[b"0".as_slice(), b"1"]).await.unwrap();
        assert_eq!(created, [b"created"]);
    }

    /// The full name of a key of the shard.
    pub(crate) fn key(&self, name: &str) -> String {
        format!("{}{name}", self.base)
    }

    /// One plain command; `~` in front of an argument stands for the shard's base.
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

    /// One call of a script; the layout goes before the arguments.
    pub(crate) async fn call(&mut self, verb: Verb, args: &[impl AsRef<[u8]>]) -> Answer {
        let mut pipe = redis::pipe();
        self.add(&mut pipe, verb, args);
        let mut values = self.run(&pipe).await;
        flat(values.pop().unwrap())
    }

    /// One call of a script, and the whole shard after it.
    pub(crate) async fn step(&mut self, verb: Verb, args: &[impl AsRef<[u8]>]) -> (Answer, Snapshot) {
        let mut pipe = redis::pipe();
        self.add(&mut pipe, verb, args);
        pipe.cmd("EVAL").arg(DUMP).arg(1).arg(&self.meta);
        let mut values = self.run(&pipe).await;
        let dump = values.pop().unwrap().extract_error().unwrap();
        (flat(values.pop().unwrap()), Snapshot::read(dump))
    }

    /// The whole shard.
    pub(crate) async fn snapshot(&mut self) -> Snapshot {
        let mut pipe = redis::pipe();
        pipe.cmd("EVAL").arg(DUMP).arg(1).arg(&self.meta);
        Snapshot::read(self.run(&pipe).await.pop().unwrap().extract_error().unwrap())
    }

    /// Removes every key of the shard.
    pub(crate) async fn remove(&mut self) {
        let script =
            "local k = redis.call('KEYS', ARGV[1]) if #k > 0 then redis.call('DEL', unpack(k)) end return 0";
        let pattern = self.key("*");
        self.command(&[b"EVAL", script.as_bytes(), b"0", pattern.as_bytes()]).await;
    }

    fn add(&self, pipe: &mut redis::Pipeline, verb: Verb, args: &[impl AsRef<[u8]>]) {
        if let Some(clock) = self.clock_us {
            pipe.cmd("SET").arg(self.key("clock")).arg(clock);
        }
        let command =
            pipe.cmd("EVALSHA").arg(&self.scripts.get(verb).sha).arg(2).arg(&self.meta).arg(&self.never);
        command.arg(1);
        for arg in args {
            command.arg(arg.as_ref());
        }
    }

    /// Runs a pipeline, and once more with all scripts loaded where the server did not know them.
    async fn run(&mut self, pipe: &redis::Pipeline) -> Vec<Value> {
        let count = pipe.cmd_iter().count();
        let mut values = self.connection.send_packed_commands(pipe, 0, count).await.unwrap();
        let unknown = |value: &Value| matches!(value, Value::ServerError(e) if e.code() == "NOSCRIPT");
        if values.iter().any(unknown) {
            let mut load = redis::pipe();
            for &verb in Verb::ALL {
                load.cmd("SCRIPT").arg("LOAD").arg(&self.scripts.get(verb).source);
            }
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
