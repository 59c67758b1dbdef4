/** The helpers for tests: isolated deployments, what is pending, promotions and drains; and a reserve that promotes. */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { Bury, Client, InvalidMessage, type Delivery } from "../src/index.js";
import { isolated, NotDrained, NotRemovable, type Deployment } from "../src/testing.js";
import { RedisGroup, REPOSITORY, Server } from "./server.js";

const FAR = 4_102_444_800_000;
const HOUR_MS = 3_600_000;
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

/** A test on one shard, and on seven. */
function onEachDeployment(name: string, work: (queue: Deployment) => Promise<void>): void {
  for (const shards of [1, 7]) {
    test(`${name} (shards: ${shards})`, async () => {
      const queue = await isolated(redis, { shards });
      try {
        await work(queue);
      } finally {
        await queue.remove();
      }
    });
  }
}

async function put(queue: Deployment, id: string, afterMs = HOUR_MS, topic = "orders"): Promise<void> {
  assert.ok((await queue.client.put({ topic, id, payload: id, afterMs })).accepted);
}

async function putFar(queue: Deployment, count: number, topic = "orders"): Promise<void> {
  await queue.client.putMany(Array.from({ length: count }, (_, n) => ({ topic, id: `${topic}-${n}`, payload: "x", at: FAR + n })));
}

const ids = (found: readonly { id: string }[]): string[] => found.map(({ id }) => id);

async function states(queue: Deployment, topic = "orders"): Promise<number[]> {
  const { delayed, ready, leased } = await queue.client.topic(topic).count();
  return [delayed, ready, leased];
}

onEachDeployment("pending messages are shown in the order of due times with all that a test asserts", async (queue) => {
  await queue.client.put({ topic: "orders", id: "b", payload: "b", at: FAR + 1, group: "user-5", headers: [["kind", "gift"]] });
  await queue.client.put({ topic: "orders", id: "a", payload: "a", at: FAR });
  await queue.client.put({ topic: "orders", id: "now", payload: "now" });
  await queue.client.put({ topic: "mails", id: "x", payload: "x", at: FAR });
  const [now, ...pending] = await queue.pending("orders");
  assert.equal(now!.id, "now");
  assert.deepEqual(pending, [
    { id: "a", dueMs: FAR, payload: Buffer.from("a"), group: undefined, headers: [] },
    { id: "b", dueMs: FAR + 1, payload: Buffer.from("b"), group: "user-5", headers: [["kind", "gift"]] },
  ]);
});

onEachDeployment("all of a topic is promoted, even what became due since", async (queue) => {
  await put(queue, "soon", 1);
  await put(queue, "later");
  await put(queue, "mail", HOUR_MS, "mails");
  await sleep(10); // it has to become due: no timer notices
  assert.deepEqual([await queue.promoteAll("orders"), await queue.promoteAll("orders"), await queue.promoteAll("nothing")], [2, 0, 0]);
  assert.deepEqual(ids(await queue.drain("orders", () => 1)).sort(), ["later", "soon"]);
  assert.deepEqual(ids(await queue.pending("mails")), ["mail"]);
});

onEachDeployment("a drain delivers everything in the order of due times, with what handlers put", async (queue) => {
  for (const n of [3, 1, 2]) await put(queue, `order-${n}`, n * HOUR_MS);
  const drained = await queue.drain(["orders", "mails"], async ({ id }) => {
    if (id === "order-1") await put(queue, "mail", 1.5 * HOUR_MS, "mails");
  });
  assert.deepEqual(drained.map(({ topic, id, word }) => [topic, id, word]), [
    ["orders", "order-1", "delivered"], ["mails", "mail", "delivered"], ["orders", "order-2", "delivered"], ["orders", "order-3", "delivered"],
  ]);
  assert.equal(String(drained[2]!.payload), "order-2");
  assert.deepEqual([await queue.pending("orders"), await queue.drain("orders", () => 1)], [[], []]);
});

onEachDeployment("a drain settles as a worker does, and waits for no back-off", async (queue) => {
  await queue.client.topic("orders").setPolicy({ maxAttempts: 3, backoff: { kind: "fixed", delaysMs: [5 * HOUR_MS] } });
  for (const id of ["failing", "wrong", "own"]) await put(queue, id);
  const drained = await queue.drain("orders", (delivery) => {
    if (delivery.id === "own") return void delivery.bury("by itself");
    throw delivery.id === "wrong" ? new Bury("no such order") : new Error("always");
  });
  const of = (wanted: string) => drained.filter(({ id }) => id === wanted).map(({ attempt, word }) => [attempt, word]);
  assert.deepEqual([of("failing"), of("wrong"), of("own")], [[[1, "delayed"], [2, "delayed"], [3, "buried"]], [[1, "buried"]], [[1, "buried"]]]);
  assert.deepEqual([...new Set(drained.map(({ error }) => (error as Error)?.message))].sort(), ["always", "no such order", undefined]);
});

onEachDeployment("a handler that puts, or fails, for ever is named", async (queue) => {
  await put(queue, "order-0");
  const putNext = ({ id }: Delivery) => put(queue, `order-${Number(id.slice(6)) + 1}`);
  await assert.rejects(queue.drain("orders", putNext, { maxDeliveries: 5 }), (fault) => {
    assert.ok(fault instanceof NotDrained);
    assert.match(fault.message, /orders is not drained after 5 deliveries, order-5 is next: .*for ever/);
    assert.deepEqual(ids(fault.drained), [0, 1, 2, 3, 4].map((n) => `order-${n}`));
    return true;
  });
  assert.deepEqual(ids(await queue.pending("orders")), ["order-5"]);
  const fail = (): void => {
    throw new RangeError("no key");
  };
  await queue.client.topic("orders").setPolicy({ maxAttempts: 0 });
  await assert.rejects(queue.drain("orders", fail, { maxDeliveries: 7 }), /after 7 deliveries, order-5 is next.*RangeError: no key at last/);
});

onEachDeployment("a message that cannot be delivered is named", async (queue) => {
  await put(queue, "order-1", 0);
  await queue.client.reserve(["orders"]);
  await assert.rejects(queue.drain("orders", () => 1), /orders has leased messages \(1\): before a drain, settle/);
  await put(queue, "mail", HOUR_MS, "mails");
  await queue.client.topic("mails").setPolicy({ paused: true });
  await assert.rejects(queue.drain("mails", () => 1), /mails has messages \(1\) that cannot be reserved: is it paused/);
});

test("a deployment is removed whole, and nothing of others", async () => {
  const other = await isolated(`unix://${server.socket}`, { shards: 3 });
  await other.client.put({ topic: "orders", id: "kept", payload: "x", at: FAR });
  await redis.set("foreign", "1");
  const keys = (await redis.keys("*")).sort();
  const queue = await isolated(redis, { shards: 3 });
  const messages = Array.from({ length: 3_000 }, (_, n) => ({ topic: "orders", id: `o-${n}`, payload: "x", afterMs: HOUR_MS, group: `g-${n}` }));
  await queue.client.putMany(messages);
  await queue.remove();
  assert.deepEqual((await redis.keys("*")).sort(), keys);
  assert.deepEqual(ids(await other.pending("orders")), ["kept"]);
  await other.remove();
  assert.deepEqual(await redis.keys("*"), ["foreign"]);
  await redis.del("foreign");
});

test("a user who could not remove a deployment is refused, and nothing is created", async () => {
  await redis.acl("SETUSER", "builder", "on", "nopass", "~*", "+@all", "-scan");
  const builder = new Redis({ path: server.socket, username: "builder", password: "x" });
  await assert.rejects(isolated(builder), (fault) => fault instanceof NotRemovable && /none was created: .*scan/.test(fault.message));
  builder.disconnect();
  assert.deepEqual(await redis.keys("*"), []);
});

test("a cluster and odd arguments of the helpers are refused by name", async () => {
  const group = await RedisGroup.start("cluster");
  for (const odd of [null, undefined, 5, [], {}, group.url] as any[]) await assert.rejects(isolated(odd), { name: "InvalidMessage" }, String(odd));
  await group.stop();
  for (const odd of [null, NaN, Infinity, -1, 0, 0.5, 4097, "1", {}, [], true] as any[]) {
    await assert.rejects(isolated(redis, { shards: odd }), /shards/);
  }
  await assert.rejects(isolated(redis, { shard: 1 } as any), /has no shard/);
  const queue = await isolated(redis);
  for (const odd of [null, NaN, Infinity, -1, 0, 0.5, "false", {}, [], true] as any[]) {
    await assert.rejects(queue.drain("orders", () => 1, { maxDeliveries: odd }), /maxDeliveries/);
    await assert.rejects(queue.drain("orders", odd), /handler/);
    if (odd === "false") continue; // a topic
    await assert.rejects(queue.drain(odd, () => 1), InvalidMessage);
    await assert.rejects(queue.pending(odd), InvalidMessage);
    await assert.rejects(queue.promoteAll(odd), InvalidMessage);
  }
  await assert.rejects(queue.drain("orders", () => 1, { max: 5 } as any), /has no max/);
  await queue.remove();
});

onEachDeployment("a reserve hands the earliest due of all shards out first, and promotes no more", async (queue) => {
  await putFar(queue, 40);
  const reserve = async (max: number) => ids(await queue.client.reserve(["orders"], { max, promoteUntil: FAR + 9 }));
  assert.deepEqual(await queue.client.reserve(["orders"], { max: 5 }), []);
  assert.deepEqual([await reserve(1), await states(queue)], [["orders-0"], [39, 0, 1]]);
  assert.deepEqual([await reserve(5), await states(queue)], [[1, 2, 3, 4, 5].map((n) => `orders-${n}`), [34, 0, 6]]);
  assert.deepEqual(await reserve(100), [6, 7, 8, 9].map((n) => `orders-${n}`));
  assert.deepEqual([await reserve(100), await states(queue)], [[], [30, 0, 10]]);
  await queue.client.cancel("orders", "orders-10");
  assert.deepEqual(await queue.client.reserve(["orders"], { promoteUntil: Date.now() - 1000 }), []);
  assert.deepEqual(ids(await queue.client.reserve(["orders"], { promoteUntil: new Date(FAR + 20) })), ["orders-11"]);
});

onEachDeployment("a reserve hands ready messages out before any is promoted, and topics by priority", async (queue) => {
  await putFar(queue, 3);
  await putFar(queue, 3, "mails");
  await queue.client.putMany(Array.from({ length: 4 }, (_, n) => ({ topic: "orders", id: `ready-${n}`, payload: "x" })));
  const ready = await queue.client.reserve(["mails", "orders"], { max: 3, promoteUntil: FAR });
  assert.ok(ready.length === 3 && ready.every(({ id }) => id.startsWith("ready-")));
  assert.deepEqual([await states(queue), await states(queue, "mails")], [[3, 1, 3], [3, 0, 0]]);
  const [last, ...promoted] = await queue.client.reserve(["mails", "orders"], { max: 5, waitMs: HOUR_MS, promoteUntil: FAR + 1 });
  assert.ok(last!.id.startsWith("ready-"));
  assert.deepEqual(ids(promoted), ["mails-0", "mails-1", "orders-0", "orders-1"]);
  assert.deepEqual(await queue.client.reserve(["orders"], { waitMs: 10, promoteUntil: FAR + 1 }), []);
});

onEachDeployment("of a paused topic, a reserve promotes no more than there is room for", async (queue) => {
  await putFar(queue, 20);
  await queue.client.topic("orders").setPolicy({ paused: true });
  for (let n = 0; n < 3; n++) assert.deepEqual(await queue.client.reserve(["orders"], { max: 3, promoteUntil: FAR + 19 }), []);
  assert.deepEqual(await states(queue), [17, 3, 0]);
});

onEachDeployment("more than a call of a script takes are promoted in steps", async (queue) => {
  await putFar(queue, 600);
  assert.deepEqual(ids(await queue.client.reserve(["orders"], { max: 500, promoteUntil: FAR + 450 })), Array.from({ length: 451 }, (_, n) => `orders-${n}`));
  assert.deepEqual(await states(queue), [149, 0, 451]);
});

onEachDeployment("messages that are promoted and not handed out are ready for everyone", async (queue) => {
  await putFar(queue, 3);
  const client = new Client(redis, { namespace: queue.namespace });
  const calls = client["calls"];
  const call = calls.call.bind(calls);
  calls.call = async (verb, ...rest) => {
    if (verb === "reserve" && (await states(queue))[1]! > 0) throw new Error("broken");
    return call(verb, ...rest);
  };
  await assert.rejects(client.reserve(["orders"], { max: 2, promoteUntil: FAR + 9 }), /broken/);
  assert.deepEqual(await states(queue), [1, 2, 0]);
  client.close();
  assert.deepEqual(ids(await queue.drain("orders", () => 1)).sort(), ["orders-0", "orders-1", "orders-2"]);
});

test("a deployment takes milliseconds", async () => {
  await (await isolated(redis)).remove();
  const begun = performance.now();
  for (let n = 0; n < 20; n++) {
    const queue = await isolated(redis);
    await put(queue, "order-1");
    await queue.remove();
  }
  assert.ok((performance.now() - begun) / 20 < 200, "about 3 ms on a quiet machine");
});

test("the guide's test passes, and is right by the package's types", () => {
  const guide = readFileSync(`${REPOSITORY}/docs/guides/testing.md`, "utf8");
  const [shown, ...more] = [...guide.matchAll(/```ts\n(.*?)```/gs)].map(([, text]) => text!);
  assert.equal(more.length, 0);
  const [here, folder] = [`${REPOSITORY}/clients/node`, `${server.folder}/guide`];
  mkdirSync(`${folder}/node_modules`, { recursive: true });
  symlinkSync(here, `${folder}/node_modules/delayq`);
  writeFileSync(`${folder}/package.json`, '{"private": true, "type": "module"}');
  writeFileSync(`${folder}/expiries.test.ts`, shown!.replace("redis://127.0.0.1:6379", `unix://${server.socket}`));
  const options = ["--strict", "--module", "NodeNext", "--target", "ES2023", "--skipLibCheck", "--types", "node"];
  const tsc = [`${here}/node_modules/typescript/bin/tsc`, ...options, "--typeRoots", `${here}/node_modules/@types`, "expiries.test.ts"];
  execFileSync(process.execPath, tsc, { cwd: folder, stdio: "inherit" });
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const ran = execFileSync(process.execPath, ["--test", "--test-reporter=tap", "expiries.test.js"], { cwd: folder, env, encoding: "utf8" });
  assert.match(ran, /# pass 1\n# fail 0/);
  rmSync(folder, { recursive: true });
});
