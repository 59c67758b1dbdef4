/** Reserves of unreadable messages, and waiting reserves. */

import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";
import type { Redis } from "ioredis";
import { Client, type Stored } from "../src/index.js";
import { LINGER_MS } from "../src/reserving.js";
import { Watch } from "../src/watch.js";
import { call, plant, Server } from "./server.js";

const envelope = (flags: number, rest: string): Buffer =>
  Buffer.concat([Buffer.of(1, 1, 0, flags), Buffer.alloc(28), Buffer.from(rest, "hex")]);
/** A generated id, whose stored name has no group. */
const BROKEN = Buffer.alloc(16, 1);
const UNREADABLE = {
  "a malformed group": envelope(8, "0107"),
  "a group that is no text": envelope(8, "01ff"),
  "no zstd frame": envelope(32, Buffer.from("plain text").toString("hex")),
  "no zstd frame, and longer than a frame's head": envelope(32, "61".repeat(100)),
  "a frame that is cut short": envelope(32, "28b52ffd2301"),
  "a frame that would be larger than any payload": envelope(32, "28b52ffda0000000400000000000000000"),
  "a dictionary that is not there": envelope(32, "28b52ffd23010203040501000078"),
};

let server: Server;
let redis: Redis;
before(async () => {
  server = await Server.start();
  redis = server.connect();
});
after(async () => {
  redis.disconnect();
  await server.stop();
});
beforeEach(async () => {
  await redis.flushdb();
  await call(redis, "reading", "init", 0, 1, [0, 1]);
});

for (const [name, bytes] of Object.entries(UNREADABLE)) {
  test(`a message that cannot be read is buried and does not stop its neighbours: ${name}`, async () => {
    await call(redis, "reading", "put", 0, 1, ["t", BROKEN, "1", "", envelope(0, ""), "whole", "1", "", envelope(0, "")]);
    await plant(redis, "reading", BROKEN, bytes);
    const client = new Client(redis, { namespace: "reading" });
    const found = await client.reserve(["t"], { max: 10 });
    client.close();
    assert.deepEqual(found.map(({ id }) => id), ["whole"]);
    const counted = await call(redis, "reading", "count", 0, 1, ["t", "0"]);
    assert.deepEqual(counted.slice(3, 6).map(Number), [0, 1, 1]);
  });
}

test("a wake-up alone brings a waiting reserve its message", async () => {
  const client = new Client(redis, { namespace: "reading" });
  const every = Watch.pollMs;
  Watch.pollMs = 60_000; // the look that it takes without being woken would come too late
  const waiting = client.reserve(["t"], { waitMs: 30_000 });
  while (((await redis.call("PUBSUB", "SHARDNUMSUB", "{reading:0}:ready")) as number[])[1] === 0);
  await client.put({ topic: "t", payload: "x", afterMs: 0 });
  assert.deepEqual((await waiting).map(({ payload }) => payload.toString()), ["x"]);
  Watch.pollMs = every;
});

test("who waits is counted among the workers of each topic until the client is closed", async () => {
  const client = new Client(redis, { namespace: "reading" });
  const are = async (count: number): Promise<void> => {
    const channels = ["orders", "mails"].map((topic) => `{reading:0}:workers:${topic}`);
    const counts = async () => (await redis.call("PUBSUB", "SHARDNUMSUB", ...channels)) as unknown[];
    for (let found = await counts(); found[1] !== count || found[3] !== count; found = await counts());
  };
  const waiting = client.reserve(["orders"], { waitMs: 30_000 });
  while (((await redis.call("PUBSUB", "SHARDNUMSUB", "{reading:0}:ready")) as number[])[1] === 0);
  const later = client.reserve(["orders", "mails"], { waitMs: 30_000 });
  const ended = Promise.allSettled([waiting, later]);
  await are(1);
  client.close();
  await are(0);
  await ended;
});

test("a waiting reserve survives the loss of its connection", async () => {
  const client = new Client(redis, { namespace: "reading" });
  const every = Watch.pollMs;
  Watch.pollMs = 60_000;
  const waiting = client.reserve(["t"], { waitMs: 90_000 });
  const listening = async () => ((await redis.call("PUBSUB", "SHARDNUMSUB", "{reading:0}:ready")) as number[])[1]! > 0;
  while (!(await listening()));
  await redis.call("CLIENT", "KILL", "TYPE", "pubsub");
  while (!(await listening()));
  await client.put({ topic: "t", payload: "x", afterMs: 0 });
  assert.deepEqual((await waiting).map(({ payload }) => payload.toString()), ["x"]);
  Watch.pollMs = every;
});

test("what came too late goes to nobody who asked for another lease", async () => {
  const client = new Client(redis, { namespace: "reading" });
  const reserver = client["reserver"];
  await client.put({ topic: "t", payload: "x", afterMs: 0 });
  const late = await client.reserve(["t"], { leaseMs: 5_000 });
  reserver["keep"](late, { topics: ["t"], leaseMs: 5_000, max: 1 }, undefined, reserver["watch"](["t"], 1));
  const found = await client.reserve(["t"], { leaseMs: 600_000, waitMs: 30_000 }); // once it was given back
  assert.deepEqual(found.map((one) => one["lengthMs"] > 540_000), [true]);
});

test("what is kept is left to its own timer", () => {
  const watch = new Watch<string>(["t"]);
  watch.keep(["early"], 1, undefined);
  watch.keep(["next"], 1, undefined);
  assert.deepEqual(watch.clear(["early"]), ["early"]);
  assert.deepEqual(watch.kept(10, 1).found, ["next"]);
  assert.deepEqual(watch.clear(["next"]), []); // it has been taken
});

test("calls of many leases share one watch", async () => {
  const client = new Client(redis, { namespace: "reading" });
  for (let leaseMs = 1_000; leaseMs <= 20_000; leaseMs += 1_000) await client.reserve(["t"], { leaseMs, waitMs: 1 });
  assert.deepEqual([...client["reserver"]["watches"]].map(([key, { waiting }]) => [key, waiting]), [["t", 0]]);
  client.close();
});

test("a watch that nobody waits by goes once it is old", () => {
  const client = new Client(redis, { namespace: "reading" });
  const reserver = client["reserver"];
  const [waited, old, young] = ["waited", "old", "young"].map((topic) => reserver["watch"]([topic], 1)) as [any, any, any];
  waited.waiting = 1;
  for (const one of [waited, old]) one.idleMs -= 2 * LINGER_MS;
  reserver["watch"](["next"], 1);
  assert.deepEqual([...reserver["watches"].keys()], ["waited", "young", "next"]);
  assert.equal(reserver["watch"](["young"], 1), young);
  client.close();
});

test("a topic or id outside the rules hides no other, and is removed by the name that is shown", async () => {
  const client = new Client(redis, { namespace: "reading" });
  const all = async (some: AsyncIterable<Stored>) => {
    const found: Stored[] = [];
    for await (const one of some) found.push(one);
    return found.map(({ topic, id }) => `${topic} ${id}`).sort();
  };
  await client.putMany(["odd-id", "whole"].map((id) => ({ topic: "t", payload: "x", id, group: "g", afterMs: 3_600_000 })));
  await client.put({ topic: "t", payload: "x", id: "dead" });
  await client.bury((await client.reserve(["t"])).map(({ receipt }) => receipt), "why");
  await redis.call("EVAL", ODD, 0, Buffer.from("odd-id\x1fg"), Buffer.from("od\xff\nd", "latin1"));
  const [topic, id] = ["~odd-my%20orders", "~odd-od%FF%0Ad"];
  const orders = client.topic(topic);
  assert.deepEqual(await all(orders.list("delayed")), [`${topic} whole`, `${topic} ${id}`]);
  assert.deepEqual(await all(client.group("g").list()), [`${topic} whole`, `${topic} ${id}`]);
  assert.deepEqual(await all(orders.list("dead")), [`${topic} dead`]);
  assert.equal((await client.get(topic, id))!.state, "delayed");
  assert.equal((await client.cancel(topic, id)).word, "cancelled");
  assert.deepEqual([await orders.purge("dead"), await orders.purge("delayed")], [{ purged: 1, kept: 0 }, { purged: 1, kept: 0 }]);
  assert.equal((await orders.count()).delayed, 0);
  client.close();
});

test("a count tells of keys that it cannot read", async () => {
  const client = new Client(redis, { namespace: "reading" });
  await client.put({ topic: "counted", payload: "x", afterMs: 3_600_000 });
  const no = await redis.hget("{reading:0}:meta", "topic:counted");
  await redis.set(`{reading:0}:d:${no}`, "no set");
  const { unreadable, delayed, accepted, dead } = await client.topic("counted").count();
  assert.deepEqual([unreadable, delayed, accepted, dead], [1, 1, 1, 0]);
  await redis.del(`{reading:0}:d:${no}`);
  client.close();
});

/** Renames a topic and, in each place where the message is, an id to names that no put accepts. */
const ODD = `
  local base, from, to = '{reading:0}:', ARGV[1], ARGV[2]
  local no = redis.call('HGET', base .. 'meta', 'topic:t')
  redis.call('RENAME', base .. 'm:' .. no .. ':' .. from, base .. 'm:' .. no .. ':' .. to)
  for _, key in ipairs(redis.call('KEYS', base .. '*')) do
    if redis.call('TYPE', key).ok == 'zset' then
      for _, member in ipairs(redis.call('ZRANGE', key, 0, -1)) do
        local first, last = string.find(member, from, 1, true)
        if first then
          local score = redis.call('ZSCORE', key, member)
          redis.call('ZREM', key, member)
          redis.call('ZADD', key, score, string.sub(member, 1, first - 1) .. to .. string.sub(member, last + 1))
        end
      end
    end
  end
  redis.call('HDEL', base .. 'meta', 'topic:t')
  redis.call('HSET', base .. 'meta', 'topic:my orders', no)
  redis.call('HSET', base .. 't:' .. no, 'name', 'my orders')`;
