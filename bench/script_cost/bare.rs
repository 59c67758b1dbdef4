//! The minimum work of any such queue: bare commands, each step in a script of its own.
//!
//! Ids, bodies and due times equal delayq's, in sorted sets of the same size; a put names its bucket.

use crate::ids::Ids;
use crate::scripts::{BATCH, PUMP_BATCH, fill};
use crate::server::{HOUR_MS, Server, envelope};
use redis::{Cmd, Value};

const PUT: &str = "
for i = 2, #ARGV, 3 do
  redis.call('SET', '{dq:0}:m:1:' .. ARGV[i], ARGV[i + 2], 'NX')
  redis.call('ZADD', ARGV[1], ARGV[i + 1], ARGV[i])
end
return 0";
const PUT_AT_ONCE: &str = "
local entries = {}
for i = 2, #ARGV, 3 do
  redis.call('SET', '{dq:0}:m:1:' .. ARGV[i], ARGV[i + 2], 'NX')
  entries[#entries + 1], entries[#entries + 2] = ARGV[i + 1], ARGV[i]
end
redis.call('ZADD', ARGV[1], unpack(entries))
return 0";
const PUMP: &str = "
local due = redis.call('ZRANGEBYSCORE', ARGV[1], '-inf', ARGV[2], 'LIMIT', 0, ARGV[3])
redis.call('RPUSH', '{dq:0}:r:1', unpack(due))
redis.call('ZREM', ARGV[1], unpack(due))
return #due";
const RESERVE: &str = "
local ids = redis.call('LPOP', '{dq:0}:r:1', ARGV[1])
local keys, leases = {}, {}
for i = 1, #ids do
  keys[i] = '{dq:0}:m:1:' .. ids[i]
  leases[2 * i - 1], leases[2 * i] = ARGV[2], ids[i]
end
redis.call('ZADD', '{dq:0}:leases', unpack(leases))
return { ids, redis.call('MGET', unpack(keys)) }";
const ACK: &str = "
local keys = {}
for i = 1, #ARGV do keys[i] = '{dq:0}:m:1:' .. ARGV[i] end
redis.call('ZREM', '{dq:0}:leases', unpack(ARGV))
redis.call('UNLINK', unpack(keys))
return 0";
const PUT_ONE: &str = "
redis.call('SETNX', '{dq:0}:m:1:' .. ARGV[2], ARGV[4])
redis.call('ZADD', ARGV[1], ARGV[3], ARGV[2])
return 0";
const RESERVE_ONE: &str = "
local id = redis.call('LPOP', '{dq:0}:r:1')
local body = redis.call('GET', '{dq:0}:m:1:' .. id)
redis.call('ZADD', '{dq:0}:leases', ARGV[1], id)
return { id, body }";
const ACK_ONE: &str = "
redis.call('ZREM', '{dq:0}:leases', ARGV[1])
redis.call('UNLINK', '{dq:0}:m:1:' .. ARGV[1])
return 0";
/// Removes a batch, so that the number of pending messages is unchanged.
const REMOVE: &str = "
for i = 2, #ARGV do
  redis.call('ZREM', ARGV[1], ARGV[i])
  redis.call('UNLINK', '{dq:0}:m:1:' .. ARGV[i])
end
return 0";

pub(crate) struct Bare {
    pub(crate) server: Server,
    envelope: Vec<u8>,
    shas: [String; 9],
}

// === impl Bare ===

impl Bare {
    pub(crate) async fn filled(pending: usize) -> Self {
        let mut server = Server::start().await;
        let mut shas = [const { String::new() }; 9];
        for (sha, source) in
            shas.iter_mut().zip([PUT, PUMP, RESERVE, ACK, REMOVE, PUT_AT_ONCE, PUT_ONE, RESERVE_ONE, ACK_ONE])
        {
            *sha = server.load(source).await;
        }
        let mut bare = Self { server, envelope: envelope().encode(), shas };
        for (batch, fill) in fill(pending).into_iter().enumerate() {
            let due = |n: usize| match fill {
                None => bare.server.past_ms(batch * BATCH + n),
                Some(hour) => bare.server.due_ms(hour, batch * BATCH + n),
            };
            let dues: Vec<u64> = (0..BATCH).map(due).collect();
            let call = bare.put_call(5, &dues).0;
            bare.server.run(&call).await;
        }
        bare
    }

    /// Measures each step as often as a round of delayq does, and keeps the number of pending messages.
    pub(crate) async fn round(&mut self, round: usize) {
        for batch in 0..PUMP_BATCH / BATCH {
            let first = round * PUMP_BATCH + batch * BATCH;
            let dues: Vec<u64> = (0..BATCH).map(|n| self.server.due_ms(1, first + n)).collect();
            for (script, row) in [(0, "put"), (5, "put, one ZADD")] {
                let (call, ids) = self.put_call(script, &dues);
                self.server.measure(row, BATCH, &call).await;
                let remove = self.command(4, std::iter::once(bucket(dues[0])).chain(ids));
                self.server.run(&remove).await;
            }
        }
        let now = self.server.now_ms;
        let pump = [bucket(self.server.past_ms(0)), now.to_string().into(), PUMP_BATCH.to_string().into()];
        let call = self.command(1, pump);
        self.server.measure("pump", PUMP_BATCH, &call).await;
        let mut batches: Vec<Vec<Vec<u8>>> = Vec::new();
        for _ in 0..PUMP_BATCH / BATCH {
            let call = self.command(2, [BATCH.to_string().into(), now.to_string().into()]);
            let answer = self.server.measure("reserve", BATCH, &call).await;
            let (ids, _): (_, Value) = redis::from_redis_value(answer).expect("ids and bodies");
            batches.push(ids);
        }
        for ids in batches {
            let call = self.command(3, ids);
            self.server.measure("ack", BATCH, &call).await;
        }
        for batch in 0..PUMP_BATCH / BATCH {
            let first = round * PUMP_BATCH + batch * BATCH;
            let past: Vec<u64> = (0..BATCH).map(|n| self.server.past_ms(first + n)).collect();
            let call = self.put_call(5, &past).0;
            self.server.run(&call).await;
        }
    }

    /// A batch of puts of one message each, due in the next hour or already, and the ids.
    pub(crate) fn single_puts(&mut self, ids: Ids, past: bool) -> (Vec<Cmd>, Vec<Vec<u8>>) {
        let names: Vec<Vec<u8>> = (0..BATCH).map(|_| ids.id(&mut self.server)).collect();
        let one = |(n, id): (usize, &Vec<u8>)| {
            let due = if past { self.server.past_ms(n) } else { self.server.due_ms(1, n) };
            self.command(6, [bucket(due), id.clone(), due.to_string().into(), ids.envelope(id)])
        };
        (names.iter().enumerate().map(one).collect(), names)
    }

    pub(crate) async fn remove(&mut self, ids: &[Vec<u8>]) {
        let call =
            self.command(4, std::iter::once(bucket(self.server.due_ms(1, 0))).chain(ids.iter().cloned()));
        self.server.run(&call).await;
    }

    pub(crate) fn single_pump(&self) -> Cmd {
        let now = self.server.now_ms.to_string();
        self.command(1, [bucket(self.server.past_ms(0)), now.into(), b"1".to_vec()])
    }

    pub(crate) fn single_reserve(&self) -> Cmd {
        self.command(7, [self.server.now_ms.to_string().into()])
    }

    pub(crate) fn single_ack(&self, reserved: Value) -> Cmd {
        let (id, _): (Vec<u8>, Value) = redis::from_redis_value(reserved).expect("an id and a body");
        self.command(8, [id])
    }

    fn put_call(&mut self, script: usize, dues: &[u64]) -> (Cmd, Vec<Vec<u8>>) {
        let ids: Vec<Vec<u8>> = dues.iter().map(|_| self.server.id()).collect();
        let one = |(id, due): (&Vec<u8>, &u64)| [id.clone(), due.to_string().into(), self.envelope.clone()];
        let args: Vec<Vec<u8>> = ids.iter().zip(dues).flat_map(one).collect();
        (self.command(script, std::iter::once(bucket(dues[0])).chain(args)), ids)
    }

    fn command(&self, script: usize, args: impl IntoIterator<Item = Vec<u8>>) -> Cmd {
        let mut command = redis::cmd("EVALSHA");
        command.arg(&self.shas[script]).arg(0);
        args.into_iter().for_each(|arg| {
            command.arg(arg);
        });
        command
    }
}

/// The sorted set of the hour; past due times belong to the previous set.
fn bucket(due: u64) -> Vec<u8> {
    format!("{{dq:0}}:b:1:{}", due / HOUR_MS).into_bytes()
}
