/** Groups, topics, dead letters and policies. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Redis } from "ioredis";
import { Client, type Group, GroupBusy, type Stored } from "../src/index.js";
import { idText } from "../src/names.js";
import { call, init, plant, Server } from "./server.js";

const SHARDS = 4;
let server: Server;
let redis: Redis;
let client: Client;
before(async () => {
  server = await Server.start();
  redis = server.connect();
  await init(redis, "dq", SHARDS);
  client = new Client(redis);
});
after(async () => {
  redis.disconnect();
  await server.stop();
});

async function all(messages: AsyncIterable<Stored>): Promise<Stored[]> {
  const list = [];
  for await (const one of messages) list.push(one);
  return list;
}

test("a group is listed by due time, moved and cancelled as a whole", async () => {
  const at = 4_102_444_800_000;
  const group = client.group("user-5");
  for (const n of [3, 1, 2]) await client.put({ topic: `t${n}`, id: `m-${n}`, payload: `p${n}`, at: at + n, group: "user-5" });
  const listed = await all(group.list());
  assert.deepEqual(listed.map(({ topic, id, payload }) => [topic, id, String(payload)]), [1, 2, 3].map((n) => [`t${n}`, `m-${n}`, `p${n}`]));
  assert.deepEqual(await group.shift(1_000, { token: "once" }), { moved: 3, passedOver: 0 });
  assert.deepEqual(await group.shift(1_000, { token: "once" }), { moved: 0, passedOver: 0 });
  assert.equal((await client.get("t1", "m-1", "user-5"))!.dueMs, at + 1_001);
  assert.deepEqual(await group.cancel(), { cancelled: 3, leased: 0, failed: 0 });
  assert.deepEqual(await all(group.list()), []);
  assert.equal((await client.get("t1", "m-1", "user-5"))!.state, "cancelled");
});

test("a group is listed, moved and cancelled in one topic, and keeps the others", async () => {
  const at = 4_102_444_800_000;
  await client.putMany(["orders", "reminders"].map((topic) => ({ topic, id: "k1", payload: "x", at, group: "user-6" })));
  const [orders, reminders] = ["orders", "reminders"].map((topic) => client.group("user-6", { topic })) as [Group, Group];
  assert.deepEqual((await all(orders.list())).map(({ topic }) => topic), ["orders"]);
  assert.deepEqual(await reminders.shift(1_000), { moved: 1, passedOver: 0 });
  assert.deepEqual(await orders.cancel(), { cancelled: 1, leased: 0, failed: 0 });
  const left = await all(client.group("user-6").list());
  assert.deepEqual(left.map(({ topic, dueMs }) => [topic, dueMs]), [["reminders", at + 1_000]]);
  assert.deepEqual(await client.group("user-6", { topic: "nobody" }).cancel(), { cancelled: 0, leased: 0, failed: 0 });
});

test("two shifts of a group at once: the second is refused", async () => {
  await client.putMany(Array.from({ length: 3 }, (_, n) => ({ topic: "t", id: `b-${n}`, payload: "x", afterMs: 60_000, group: "busy" })));
  const { shard } = (await client.get("t", "b-0", "busy"))!;
  assert.equal(String((await call(redis, "dq", "shift_group", shard, 1, ["busy", "", "other", 5, 1]))[0]), "more");
  await assert.rejects(client.group("busy").shift(5), GroupBusy);
});

test("a message is found, and so is what is remembered of it", async () => {
  assert.equal(await client.get("found", "never put"), undefined);
  const { id } = await client.put({ topic: "found", payload: "x", afterMs: 60_000, headers: [["a", "b"]], backoff: { kind: "fixed", delaysMs: [7] } });
  const { state, headers, backoff, payload } = (await client.get("found", id))!;
  assert.deepEqual({ state, headers, backoff, payload: String(payload) }, { state: "delayed", headers: [["a", "b"]], backoff: { kind: "fixed", delaysMs: [7] }, payload: "x" });
});

test("a topic is counted and listed over all shards, in more than one page", async () => {
  const topic = client.topic("listed");
  const due = Date.now() + 60_000;
  await client.putMany(Array.from({ length: 2_500 }, (_, n) => ({ topic: "listed", id: `m-${n}`, payload: "x", at: due + n })));
  await client.put({ topic: "listed", id: "now", payload: "x" });
  const { delayed, ready, accepted, nextDueMs } = await topic.count();
  assert.deepEqual({ delayed, ready, accepted, nextDueMs }, { delayed: 2_500, ready: 1, accepted: 2_501, nextDueMs: due });
  assert.equal(new Set((await all(topic.list("delayed"))).map(({ id }) => id)).size, 2_500);
  const some = await all(topic.list("delayed", { from: new Date(due + 10), to: due + 12 }));
  assert.deepEqual(some.map(({ id }) => id).sort(), ["m-10", "m-11", "m-12"]);
  assert.deepEqual((await all(topic.list("ready"))).map(({ id }) => id), ["now"]);
  assert.deepEqual(await topic.purge("delayed", { to: due + 999 }), { purged: 1_000, kept: 0 });
  assert.equal((await topic.count()).delayed, 1_500);
});

test("a topic or a group is promoted up to a time, and no message twice", async () => {
  const topic = client.topic("promoted");
  const due = Date.now() + 60_000;
  const message = (n: number) => ({ topic: "promoted", id: `m-${n}`, payload: "x", at: due + n, group: n % 2 ? "odd" : "even" });
  await client.putMany(Array.from({ length: 500 }, (_, n) => message(n)));
  assert.deepEqual(await client.group("odd").promote({ to: due + 99 }), { promoted: 50, kept: 0 });
  assert.deepEqual(await topic.promote({ to: due + 299 }), { promoted: 250, kept: 0 });
  assert.deepEqual(await topic.promote({ to: due + 299 }), { promoted: 0, kept: 0 });
  const { delayed, ready } = await topic.count();
  assert.deepEqual({ delayed, ready }, { delayed: 200, ready: 300 });
});

test("one group is paused while the others go on", async () => {
  const topic = client.topic("calm");
  await topic.pauseGroup("a");
  await topic.pauseGroup("a");
  const [paused, ...others] = await topic.pausedGroups();
  assert.deepEqual([paused!.group, others], ["a", []]);
  assert.ok(Math.abs(Date.now() - paused!.sinceMs) < 3_600_000);
  for (const [n, group] of ["a", "a", "b"].entries()) await client.put({ topic: "calm", id: `m${n}`, payload: "x", group });
  assert.deepEqual((await client.reserve(["calm"], { max: 10 })).map(({ id }) => id), ["m2"]);
  assert.deepEqual((await all(topic.list("ready"))).map(({ held, paused }) => [held, paused]), [[true, true], [true, true]]);
  await topic.resumeGroup("a");
  assert.deepEqual(await topic.pausedGroups(), []);
  assert.deepEqual((await client.reserve(["calm"], { max: 10 })).map(({ id }) => id), ["m0", "m1"]);
  await assert.rejects(topic.pauseGroup(""), /not a valid group/);
});

test("dead letters are listed with their reasons, replayed and purged", async () => {
  const topic = client.topic("dead");
  await client.putMany(["a", "b", "c", "d"].map((id) => ({ topic: "dead", id, payload: "x" })));
  const buried = async (count: number) => {
    for (let n = 0; n < count; n++) for (const one of await client.reserve(["dead"])) await one.bury("no such user");
  };
  await buried(4);
  const letters = await all(topic.list("dead"));
  assert.deepEqual(letters.map(({ id, reason }) => `${id}: ${reason}`).sort(), ["a", "b", "c", "d"].map((id) => `${id}: no such user`));
  const outcomes = await topic.replay(["a", "never put"]);
  assert.deepEqual(outcomes.map(({ word, id }) => [word, id]), [["ready", "a"], ["unknown", "never put"]]);
  assert.deepEqual((await topic.replay(["a"])).map(({ word, state }) => [word, state]), [["not-dead", "ready"]]);
  assert.deepEqual(await topic.replayAll({ delayMs: 60_000 }), { replayed: 3, kept: 0 });
  assert.equal((await topic.count()).delayed, 3);
  await buried(1);
  assert.deepEqual(await topic.purge("dead"), { purged: 1, kept: 0 });
});

test("a message that cannot be read keeps no other from being listed", async () => {
  const id = Buffer.alloc(16, 1); // a generated one, of whose name the group is no part
  const broken = Buffer.concat([Buffer.of(1, 1, 0, 8), Buffer.alloc(28), Buffer.of(1, 7)]);
  const whole = Buffer.concat([Buffer.of(1, 1), Buffer.alloc(30)]);
  await init(redis, "unread", 1);
  await call(redis, "unread", "put", 0, 1, ["t", id, "+60000", "", whole, "whole", "+60000", "", whole]);
  await plant(redis, "unread", id, broken);
  const own = new Client(redis, { namespace: "unread" });
  await own.put({ topic: "t", id: "grouped", group: "crew", payload: "", afterMs: 120_000 });
  await plant(redis, "unread", Buffer.from("grouped\x1fcrew"), broken);
  const listed = await all(own.topic("t").list("delayed"));
  const shown = listed.map(({ id, group, unreadable }) => [id, group, unreadable !== undefined]);
  assert.deepEqual(shown, [[idText(id), undefined, true], ["whole", undefined, false], ["grouped", "crew", true]]);
  own.close();
});

test("a policy is changed field by field, in every shard", async () => {
  const topic = client.topic("policed");
  await topic.setPolicy({ maxAttempts: 3, leaseMs: 60_000, rate: 8, backoff: { kind: "exponential", delaysMs: [1_000, 9_000] } });
  const policy = await topic.setPolicy({ leaseMs: null, paused: true, maxAttempts: undefined });
  assert.deepEqual(policy, { maxAttempts: 3, rate: 8, paused: true, backoff: { kind: "exponential", delaysMs: [1_000, 9_000] } });
  const shown = await call(redis, "dq", "describe", SHARDS - 1, 1, ["policed"]);
  assert.ok(shown.map(String).join(" ").includes("rate 2.0"), String(shown));
  assert.deepEqual(await topic.setPolicy({ paused: false, rate: null }), { maxAttempts: 3, backoff: policy.backoff });
  const kept = await topic.setPolicy({ history: 500, historyForMs: 86_400_000 });
  assert.deepEqual([kept.history, kept.historyForMs], [500, 86_400_000]);
  await topic.setPolicy({ history: null, historyForMs: null });
  await assert.rejects(topic.setPolicy({ maxAttempt: 3 } as any), /a policy has no maxAttempt; it has maxAttempts/);
});
