/** Workers that pump: messages are delivered on time without a timer. */

import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { Cluster, Redis } from "ioredis";
import { Client, connect, Worker, type Delivery } from "../src/index.js";
import { LOCK_MS, POLL_MS } from "../src/schedule.js";
import { commandsDuring, init, RedisGroup, Server } from "./server.js";

const SHARDS = 2;
/** A worker that slept until its next poll would deliver most messages later than this. */
const LATE_MS = POLL_MS / 2;
/** Time for a busy machine. */
const BUSY_MS = 5_000;
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

/** A deployment without a timer, with a client and a worker that pumps. */
async function pumping(namespace: string, options: { handle?: (delivery: Delivery) => unknown; start?: boolean } = {}) {
  await init(redis, namespace, SHARDS);
  const client = new Client(redis, { namespace });
  const [late, faults]: [Map<string, number>, string[]] = [new Map(), []];
  const handle = (delivery: Delivery): unknown => {
    assert.ok(!late.has(delivery.id), `${delivery.id} came twice`);
    late.set(delivery.id, Date.now() - delivery.dueMs);
    return options.handle?.(delivery);
  };
  const worker = () => new Worker(client, "orders", handle, { concurrency: 100, pump: true, stopOn: [], onError: (fault) => faults.push(String(fault)) });
  const has = async (count: number): Promise<void> => {
    for (const until = Date.now() + 30_000; late.size < count; await sleep(5)) assert.ok(Date.now() < until, `${late.size} of ${count}: ${faults}`);
  };
  return { client, late, faults, worker, has, owners: () => ownersOf(namespace) };
}

const ownersOf = (namespace: string): Promise<string[]> =>
  Promise.all(Array.from({ length: SHARDS }, async (_, shard) => (await redis.hget(`{${namespace}:${shard}}:meta`, "owner")) ?? ""));

async function until(isSo: () => Promise<boolean>): Promise<void> {
  for (const last = Date.now() + 30_000; !(await isSo()); await sleep(2)) assert.ok(Date.now() < last, "it did not come about");
}

const listeners = async (namespace: string): Promise<number> => Number(((await redis.call("PUBSUB", "SHARDNUMSUB", `{${namespace}:0}:wake`)) as any[])[1]);

/** Messages that are due one after the other. */
const dueIn = (ms: number, count: number) =>
  Array.from({ length: count }, (_, n) => Date.now() + ms + n).map((at) => ({ topic: "orders", id: `order-${at}`, payload: "x", at }));

function median(late: Map<string, number>): number {
  return [...late.values()].sort((one, other) => one - other)[Math.floor(late.size / 2)]!;
}

/** A worker in a process of its own, which prints ids. */
function separate(namespace: string): { process: ChildProcess; lines: AsyncIterator<string> } {
  const index = fileURLToPath(new URL("../src/index.js", import.meta.url));
  const program = `import { Client, Worker } from ${JSON.stringify(index)};
    new Worker(new Client("unix://${server.socket}", { namespace: "${namespace}" }), "orders", ({ id }) => console.log(id), { pump: true });`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", program], { stdio: ["ignore", "pipe", "inherit"] });
  return { process: child, lines: createInterface(child.stdout!)[Symbol.asyncIterator]() };
}

test("own ids are delivered on time without a timer", async () => {
  const { client, late, worker, has } = await pumping("p1");
  const one = worker();
  await client.putMany(dueIn(300, 500));
  await has(500);
  await one.close();
  client.close();
  assert.ok(Math.min(...late.values()) >= -1 && median(late) < LATE_MS, String(median(late)));
});

test("a nearer put wakes a worker that sleeps", async () => {
  const { client, late, worker, has } = await pumping("p2");
  const one = worker();
  await client.putMany(Array.from({ length: 8 }, (_, n) => ({ topic: "orders", id: `far-${n}`, payload: "x", afterMs: 3_600_000 })));
  for (let n = 0; n < 8; n++) {
    await client.put({ topic: "orders", id: `near-${n}`, payload: "x", afterMs: 50 });
    await has(n + 1);
  }
  await one.close();
  client.close();
  assert.ok(median(late) < LATE_MS, String(median(late)));
});

test("a server that forgets its scripts, and a listener that is cut off, lose nothing", async () => {
  const { client, late, worker, has } = await pumping("p3");
  const one = worker();
  await client.putMany(dueIn(100, 500));
  while (late.size < 500) {
    await redis.script("FLUSH");
    await redis.call("CLIENT", "KILL", "TYPE", "pubsub");
    await sleep(50);
  }
  await client.put({ topic: "orders", id: "after", payload: "x", afterMs: 20 });
  await has(501);
  await one.close();
  assert.equal((await client.topic("orders").count()).delivered, 501);
  client.close();
});

test("a hand-over waits for no lock", async () => {
  const { client, worker, owners } = await pumping("p4");
  const one = worker();
  await until(async () => (await owners()).every((owner) => owner !== ""));
  const [first, other] = [await owners(), new Client(server.connect(), { namespace: "p4" })];
  const second = new Worker(other, "orders", () => undefined, { pump: true, stopOn: [] });
  await until(async () => (await listeners("p4")) === 2);
  const began = performance.now();
  const closed = one.close();
  await until(async () => !(await owners()).some((owner) => first.includes(owner)));
  const took = performance.now() - began;
  await Promise.all([closed, second.close()]);
  other.redis.disconnect();
  client.close();
  assert.ok(took < LOCK_MS / 2, String(took));
});

test("a worker that was killed is replaced when its lock ends", async () => {
  const { client, owners } = await pumping("p5");
  const isOf = async (child: ChildProcess) => (await owners()).every((owner) => owner.includes(`:${child.pid}-`));
  const one = separate("p5");
  await until(() => isOf(one.process));
  const other = separate("p5");
  await until(async () => (await listeners("p5")) === 2);
  one.process.kill("SIGKILL");
  const killed = performance.now();
  await client.put({ topic: "orders", id: "order-1", payload: "x", afterMs: 20 });
  assert.equal((await other.lines.next()).value, "order-1");
  await until(() => isOf(other.process));
  assert.ok(performance.now() - killed < LOCK_MS + 1_000 + BUSY_MS, String(performance.now() - killed));
  const ended = once(other.process, "exit");
  other.process.kill("SIGTERM");
  await ended;
  client.close();
});

test("a worker that pumps costs less than one call in two seconds more", async () => {
  const quiet = await Server.start();
  const own = quiet.connect();
  await init(own, "dq", 1);
  const client = new Client(own);
  const worker = new Worker(client, "orders", () => undefined, { pump: true, stopOn: [] });
  await client.put({ topic: "orders", payload: "x", afterMs: 3_600_000 });
  await sleep(500);
  const commands = await commandsDuring(own, () => sleep(12_000));
  await worker.close();
  client.close();
  own.disconnect();
  await quiet.stop();
  assert.ok(commands.length <= 12 + 6, String(commands)); // one command a second is the worker's own
});

test("a redis that was silent is pumped again", async () => {
  const { client, worker, has } = await pumping("p6");
  const one = worker();
  await client.putMany([...dueIn(0, 20), ...dueIn(1_500, 20)]);
  await has(20);
  server.signal("SIGSTOP");
  await sleep(2_500);
  server.signal("SIGCONT");
  await client.putMany(dueIn(500, 20));
  await has(60);
  await one.close();
  client.close();
});

test("a timer that joins and leaves under load loses and repeats nothing", async () => {
  const { client, late, worker, has, owners } = await pumping("p7");
  const workers = [worker(), worker()];
  let isOver = false;
  const ids: string[] = [];
  const load = (async () => {
    for (; !isOver; await sleep(5)) ids.push((await client.put({ topic: "orders", id: `order-${ids.length}`, payload: "x", afterMs: Math.random() * 500 })).id);
  })();
  const isPumped = async (byWorkers: boolean) => (await owners()).every((owner) => owner !== "" && owner.startsWith("worker/") === byWorkers);
  for (let round = 0; round < 2; round++) {
    await until(() => isPumped(true));
    const stop = server.startTimer("p7", SHARDS);
    await until(() => isPumped(false));
    await sleep(1_000);
    await stop();
  }
  await until(() => isPumped(true));
  isOver = true;
  await load;
  await has(ids.length);
  await Promise.all(workers.map((one) => one.close()));
  assert.deepEqual([...late.keys()].sort(), ids.sort());
  client.close();
});

for (const kind of ["sentinel", "cluster"]) {
  test(`a worker pumps the successor of a master that was killed: ${kind}`, async () => {
    const group = await RedisGroup.start(kind);
    const operator = connect(group.url) as Redis | Cluster;
    await init(operator, "dq", 8);
    const client = new Client(connect(group.url), { timeoutMs: 1_000 });
    const ids = new Set<string>();
    const worker = new Worker(client, "orders", ({ id }) => ids.add(id), { pump: true, stopOn: [], onError: () => undefined });
    const putAll = async (name: string): Promise<void> => {
      for (let n = 0; n < 32; n++) {
        const put = (): Promise<unknown> => client.put({ topic: "orders", id: `${name}-${n}`, payload: "x", afterMs: 50 }).catch(() => sleep(20).then(put));
        await put();
      }
      for (let n = 0; n < 32; n++) await until(async () => ids.has(`${name}-${n}`));
    };
    await putAll("before");
    await group.does("kill", "{dq:0}:meta");
    await putAll("after");
    await worker.close();
    client.close();
    client.redis.disconnect();
    operator.disconnect();
    await group.stop();
  });
}
