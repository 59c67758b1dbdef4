/** The worker, with a real timer. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { Bury, Client, Worker, type Delivery, type Handler, type WorkerOptions } from "../src/index.js";
import { Listener } from "../src/listener.js";
import { Watch } from "../src/watch.js";
import { commandsDuring, init, Proxy, Server } from "./server.js";

const SHARDS = 16;
let server: Server;
let redis: Redis;
let client: Client;
before(async () => {
  server = await Server.start();
  redis = server.connect();
  await init(redis, "dq", SHARDS);
  server.startTimer("dq", SHARDS);
  client = new Client(redis);
});
after(async () => {
  client.close();
  redis.disconnect();
  await server.stop();
});

/** A worker that closes with the test, with the messages handled and the errors reported. */
function working(topic: string, handler: Handler, options: WorkerOptions = {}, by = client) {
  const [handed, faults]: [Delivery[], string[]] = [[], []];
  let wake = (): void => undefined;
  const handle: Handler = async (delivery) => {
    handed.push(delivery);
    wake();
    await handler(delivery);
  };
  const onError = (fault: unknown) => faults.push(String(fault));
  const worker = new Worker(by, topic, handle, { stopOn: [], onError, ...options });
  const until = async (count: number) => {
    while (handed.length < count) await new Promise<void>((resolve) => (wake = resolve));
  };
  return { worker, handed, faults, until };
}

test("a message is handed to a worker when it is due, and is over once that returns", async () => {
  const { worker, handed, until } = working("plain", () => undefined);
  const put = await client.put({ topic: "plain", id: "order-17", payload: '{"order":17}', afterMs: 300 });
  await until(1);
  assert.ok(Date.now() >= put.timeMs!);
  await worker.close();
  assert.deepEqual([handed[0]!.id, handed[0]!.json()], ["order-17", { order: 17 }]);
  assert.equal((await client.topic("plain").count()).delivered, 1);
});

test("a handler acks its message by the put of the next one, and one that breaks a rule is thrown", async () => {
  const { worker, handed, faults, until } = working("drips", async (delivery) => {
    const { topic, id, text } = delivery;
    const next = { topic, id, payload: `${text}+`, afterMs: 20, maxAttempts: 1 };
    if (text.length < 3) assert.equal((await delivery.ack(next)).word, "delivered");
    else await delivery.ack({ ...next, id: "another" });
  });
  await client.put({ topic: "drips", id: "drip", payload: "1" });
  await until(3);
  await worker.close();
  assert.deepEqual(handed.map(({ id, text, attempt }) => [id, text, attempt]), [["drip", "1", 1], ["drip", "1+", 1], ["drip", "1++", 1]]);
  assert.match(faults[0]!, /a next message has no id, or the id, the group and the topic of the message before it/);
  const { delivered, dead } = await client.topic("drips").count();
  assert.deepEqual([delivered, dead], [2, 1]);
});

test("what a handler throws for comes again by the topic's back-off, and is counted", async () => {
  await client.topic("again").setPolicy({ backoff: { kind: "fixed", delaysMs: [50] } });
  const { worker, handed, faults, until } = working("again", ({ attempt }) => {
    if (attempt < 3) throw new Error("not now");
  });
  await client.put({ topic: "again", payload: "x" });
  await until(3);
  await worker.close();
  assert.deepEqual(handed.map(({ attempt }) => attempt), [1, 2, 3]);
  assert.deepEqual(faults, ["Error: not now", "Error: not now"]);
  assert.equal((await client.topic("again").count()).delivered, 1);
});

test("a message that can never be delivered is dead with the reason", async () => {
  const { worker, until } = working("hopeless", () => {
    throw new Bury("no such user");
  });
  await client.put({ topic: "hopeless", id: "order-1", payload: "x" });
  await until(1);
  await worker.close();
  const letter = await client.get("hopeless", "order-1");
  assert.deepEqual([letter!.state, letter!.reason], ["dead", "no such user"]);
});

test("a lease is extended while the handler works", async () => {
  const { worker, handed, until } = working("slow", () => sleep(1_200), { leaseMs: 300 });
  await client.put({ topic: "slow", payload: "x" });
  await until(1);
  await worker.close();
  assert.equal(handed.length, 1);
  assert.equal((await client.topic("slow").count()).delivered, 1);
});

test("a handler is told when its message was cancelled", async () => {
  const { worker, handed, until } = working("doomed", async ({ signal }) => {
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
  }, { leaseMs: 150 });
  await client.put({ topic: "doomed", id: "order-1", payload: "x" });
  await until(1);
  assert.equal((await client.cancel("doomed", "order-1")).word, "leased");
  await worker.close();
  assert.match(String(handed[0]!.signal.reason), /order-1: cancelled/);
});

test("no more handlers run at once than the concurrency", async () => {
  let [running, most] = [0, 0];
  const { worker, until } = working("many", async () => {
    most = Math.max(most, ++running);
    await sleep(5);
    running--;
  }, { concurrency: 7 });
  await Promise.all(Array.from({ length: 100 }, () => client.put({ topic: "many", payload: "x" })));
  await until(100);
  await worker.close();
  assert.equal(most, 7);
  assert.equal((await client.topic("many").count()).delivered, 100);
});

test("a worker that is closed lets its handlers finish, and leaves the rest to others", async () => {
  let finish = (): void => undefined;
  const work = new Promise<void>((resolve) => (finish = resolve));
  const { worker, handed, until } = working("closing", () => work, { concurrency: 2 });
  await client.putMany(Array.from({ length: 5 }, (_, n) => ({ topic: "closing", id: `m-${n}`, payload: "x" })));
  await until(2);
  const closed = worker.close();
  finish();
  await closed;
  assert.equal(handed.length, 2);
  const { delivered, ready, leased } = await client.topic("closing").count();
  assert.deepEqual([delivered, ready, leased], [2, 3, 0]);
});

test("what a handler has not done by the deadline is given back at once", async () => {
  const { worker, until } = working("stuck", () => new Promise(() => undefined), { closeTimeoutMs: 100 });
  await client.put({ topic: "stuck", payload: "x" });
  await until(1);
  await worker.close();
  const { ready, leased } = await client.topic("stuck").count();
  assert.deepEqual([ready, leased], [1, 0]);
});

test("a loop over messages that is left gives back what it holds, and counts no attempt", async () => {
  await client.putMany(["a", "b", "c"].map((id) => ({ topic: "loop", id, payload: "x", group: "one shard" })));
  const seen: string[] = [];
  for await (const delivery of client.deliveries("loop", { concurrency: 3 })) {
    seen.push(delivery.id);
    if (seen.length === 2) break;
    await delivery.ack();
  }
  const again = await client.reserve(["loop"], { max: 3, waitMs: 5_000 });
  assert.deepEqual(again.map(({ id, attempt }) => [id, attempt]).sort(), [["b", 1], ["c", 1]]);
});

test("a worker that has nothing to do costs one command a second at most, over all shards", async () => {
  const quiet = await Server.start(); // without a timer, which polls too
  const own = quiet.connect();
  await init(own, "dq", SHARDS);
  const { worker, until } = working("idle", () => undefined, {}, new Client(own));
  await new Client(own).put({ topic: "idle", payload: "x" });
  await until(1);
  await sleep(200); // so that its ack, and the first look at all shards, are past
  const commands = await commandsDuring(own, () => sleep(10_000));
  await worker.close();
  own.disconnect();
  await quiet.stop();
  assert.ok(commands.length <= 10, String(commands));
});

test("waiting callers share one connection", async () => {
  const listens = (line: string): boolean => Number(/ ssub=(\d+)/.exec(line)?.[1]) >= 16;
  const clients = async () => ((await redis.client("LIST")) as string).split("\n").filter(listens).length;
  const waiting = Array.from({ length: 50 }, () => client.reserve(["nothing"], { waitMs: 300 }));
  await client.reserve(["nothing"], { waitMs: 100 });
  assert.equal(await clients(), 1 + 1); // and the timer's
  await Promise.all(waiting);
});

test("a worker outlives a Redis that is killed and started again", async () => {
  const { worker, handed, faults, until } = working("outage", () => undefined);
  await client.put({ topic: "outage", id: "before", payload: "x" });
  await until(1);
  await server.kill();
  await server.restart();
  await client.put({ topic: "outage", id: "after", payload: "x" });
  await until(2);
  await worker.close();
  assert.deepEqual(handed.map(({ id }) => id), ["before", "after"], String(faults));
});

test("a call that has only begun outlives a silence before it, and one that waits through it does not", async () => {
  const own = await Server.start();
  const mute = own.connect();
  await init(mute, "dq", 1);
  const pingMs = Listener.pingMs;
  Listener.pingMs = 60_000; // the pings of this test alone
  const replaced: unknown[] = [];
  const listener = new Listener(mute, "dq", 1, () => undefined, () => [], (node) => replaced.push(node));
  const { ears } = listener as any;
  for (const isWaiting of [false, true]) {
    while (ears.get(mute)?.connection.status !== "ready") await sleep(5);
    own.signal("SIGSTOP");
    const before = isWaiting ? mute.ping() : undefined;
    const pinged = (listener as any).ping(mute, ears.get(mute));
    const call = before ?? mute.ping();
    await pinged; // until its connection is cut
    own.signal("SIGCONT");
    assert.deepEqual([replaced.length, await call], [isWaiting ? 1 : 0, "PONG"]);
  }
  listener.close();
  Listener.pingMs = pingMs;
  mute.disconnect();
  await own.stop();
});

test("a worker replaces connections that have died without a word", async () => {
  const proxy = await Proxy.start(server.socket);
  const mute = new Redis({ path: proxy.socket, maxRetriesPerRequest: null });
  const [pollMs, pingMs] = [Watch.pollMs, Listener.pingMs];
  [Watch.pollMs, Listener.pingMs] = [60_000, 300]; // a poll would come too late
  const { worker, handed, until } = working("mute", () => undefined, { leaseMs: 1_000 }, new Client(mute, { timeoutMs: 300 }));
  await client.put({ topic: "mute", id: "before", payload: "x" });
  await until(1);
  proxy.silence();
  await client.put({ topic: "mute", id: "after", payload: "x" });
  while (!handed.some(({ id }) => id === "after")) await until(handed.length + 1); // an ack may have been lost
  await worker.close();
  [Watch.pollMs, Listener.pingMs] = [pollMs, pingMs];
  mute.disconnect();
  await proxy.stop();
});

test("a call of a Redis that is silent ends at its deadline, and is carried out when that answers again", async () => {
  const impatient = new Client(server.connect(), { timeoutMs: 300 });
  await impatient.get("silent", "order-1");
  server.signal("SIGSTOP");
  const fault = await impatient.put({ topic: "silent", id: "order-1", payload: "x", afterMs: 60_000 }).catch((lost: Error) => lost);
  server.signal("SIGCONT");
  assert.equal((fault as Error).name, "TimeoutError");
  assert.equal((await impatient.put({ topic: "silent", id: "order-1", payload: "x", afterMs: 60_000 })).accepted, true);
  impatient.redis.disconnect();
});

test("a connection that takes longer to be made than a call has is made nevertheless", async () => {
  const proxy = await Proxy.start(server.socket, 400);
  const far = new Redis({ path: proxy.socket, lazyConnect: true });
  const hasty = new Client(far, { timeoutMs: 1_000 });
  const faults: string[] = [];
  for (let tries = 0; tries < 5 && faults.length === tries; tries++) {
    await hasty.get("far", "order-1").catch((fault: Error) => faults.push(fault.name));
  }
  hasty.close();
  far.disconnect();
  await proxy.stop();
  assert.ok(faults.length < 5, String(faults)); // none is enough if each is closed with the call that waits for it
  assert.deepEqual([...new Set(faults)], ["TimeoutError"]);
});

test("a process that stood still for longer than a call has gets the answer", async () => {
  const still = new Client(server.connect(), { timeoutMs: 200 });
  await still.get("still", "order-1");
  const answer = still.get("still", "order-1").catch((fault: Error) => fault.name);
  // After this turn, timers run before input that has arrived.
  setImmediate(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 400));
  const said = await answer;
  still.close();
  still.redis.disconnect();
  assert.equal(said, undefined);
});
