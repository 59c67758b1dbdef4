/** Workers that stop or fail, and the fate of the messages. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import type { Redis } from "ioredis";
import { Bury, Client, ClosedError, Worker, type Delivery, type Handler, type WorkerOptions } from "../src/index.js";
import { init, Server } from "./server.js";

let server: Server;
let redis: Redis;
let client: Client;
before(async () => {
  server = await Server.start();
  redis = server.connect();
  await init(redis, "dq", 1);
  server.startTimer("dq", 1);
  client = new Client(redis);
});
after(async () => {
  client.close();
  redis.disconnect();
  await server.stop();
});

/** A worker of one message, and a promise that resolves when the handler has the message. */
async function handed(topic: string, handler: Handler, options: WorkerOptions = {}, by = client) {
  const faults: unknown[] = [];
  let resolve = (_: Delivery): void => undefined;
  const first = new Promise<Delivery>((given) => (resolve = given));
  const onError = (fault: unknown): void => void faults.push(fault);
  const worker = new Worker(by, topic, (delivery) => {
    resolve(delivery);
    return handler(delivery);
  }, { stopOn: [], onError, ...options });
  await client.put({ topic, id: "node-1", payload: "x" });
  return { worker, faults, delivery: await first };
}

test("a stop buries no message that has its only attempt, and counts none", async () => {
  await client.topic("once").setPolicy({ maxAttempts: 1 });
  const { worker, delivery } = await handed("once", () => new Promise(() => undefined), { closeTimeoutMs: 0 });
  await worker.close();
  assert.match(String(delivery.signal.reason), /returned: the worker is stopping/);
  const [again] = await client.reserve(["once"], { waitMs: 5_000 });
  assert.deepEqual([again!.id, again!.attempt, again!.delivery], ["node-1", 1, 2]);
  await again!.ack();
});

test("a loop that is left buries no message that has its only attempt", async () => {
  await client.topic("loop").setPolicy({ maxAttempts: 1 });
  await client.put({ topic: "loop", payload: "x" });
  for await (const _ of client.deliveries("loop")) break;
  assert.deepEqual((await client.reserve(["loop"], { waitMs: 5_000 })).map(({ attempt }) => attempt), [1]);
});

for (const [what, thrown, why] of [
  ["an Error", new TypeError("no such order"), /^TypeError: no such order\n +at /],
  ["text", "no such order", /^'no such order'$/],
  ["nothing", undefined, /^Error: the handler threw undefined/],
  ["an object without a prototype", Object.assign(Object.create(null), { code: 7 }), /code: 7/],
  ["what cannot be shown", { get [Symbol.toStringTag]() { throw new Error("not shown"); } }, /not shown|Object/],
  ["a long text of wide characters", new Error("ä🙂".repeat(5_000)), /^Error: ä🙂/],
  ["an Error with half of a character", new Error("\ud800"), /^Error: \ufffd/],
] as const) {
  test(`a handler that throws ${what} has failed, and the dead letter says why`, async () => {
    const topic = `throws-${what.replaceAll(" ", "-")}`;
    await client.topic(topic).setPolicy({ maxAttempts: 1 });
    const { worker, faults } = await handed(topic, () => Promise.reject(thrown));
    await worker.close();
    const letter = (await client.get(topic, "node-1"))!;
    assert.equal(letter.state, "dead");
    assert.match(letter.reason!, why);
    assert.ok(Buffer.byteLength(letter.reason!) <= 1_000 && letter.unreadable === undefined);
    assert.match(String(faults.at(-1)), /buried after the last attempt, number 1/);
  });
}

test("a Bury says its reason alone, however long", async () => {
  const { worker } = await handed("hopeless", () => Promise.reject(new Bury("ß".repeat(2_000))));
  await worker.close();
  assert.equal((await client.get("hopeless", "node-1"))!.reason, "ß".repeat(500));
});

test("a worker whose onError throws goes on", async () => {
  const silent = console.error;
  console.error = () => undefined;
  const { worker } = await handed("reports", () => Promise.reject(new Error("failed")), {
    onError: () => {
      throw new Error("so has the report");
    },
  });
  await worker.close();
  console.error = silent;
  const [again] = await client.reserve(["reports"], { waitMs: 10_000 });
  assert.equal(again!.attempt, 2);
});

test("a worker whose client is closed ends, says so, and extends no lease", async () => {
  const own = new Client(redis);
  const { worker, faults, delivery } = await handed("closed", () => new Promise(() => undefined), { leaseMs: 300 }, own);
  own.close();
  await assert.rejects(worker.closed, ClosedError);
  assert.match(String(faults.at(-1)), /the worker ended/);
  const [again] = await client.reserve(["closed"], { waitMs: 10_000 }); // its lease has run out
  assert.deepEqual([again!.id, delivery.signal.aborted], ["node-1", true]);
});

test("a client that was closed refuses every call by name", async () => {
  const own = new Client(redis);
  await own.get("orders", "none");
  own.close();
  own.close();
  const message = { topic: "orders", payload: "x" };
  const receipt = { shard: 0, raw: Buffer.from("1:node-1\0\0\0\x01") };
  const calls = [
    () => own.put(message), () => own.putMany([message]), () => own.cancel("orders", "i"), () => own.reschedule("orders", "i", { afterMs: 1 }),
    () => own.get("orders", "i"), () => own.reserve(["orders"]), () => own.reserve(["orders"], { waitMs: 60_000 }), () => own.ack([receipt]),
    () => own.topic("orders").count(), () => own.group("g").cancel(), () => own.deliveries("orders").next(),
  ];
  for (const call of calls) await assert.rejects(call, (fault) => fault instanceof ClosedError && /make another/.test(fault.message), String(call));
});

/** A program in a separate process, and the lines of output. */
function program(text: string) {
  const source = `import { Client, Worker } from ${JSON.stringify(new URL("../src/index.js", import.meta.url).href)};
    const client = new Client(${JSON.stringify(server.socket)});\n${text}`;
  const running = spawn(process.execPath, ["--input-type=module", "-e", source], { stdio: ["ignore", "pipe", "inherit"] });
  const lines = createInterface(running.stdout)[Symbol.asyncIterator]();
  return { running, line: async () => (await lines.next()).value, ended: once(running, "exit") };
}

test("a process ends after client.close(), whatever it held", { timeout: 30_000 }, async () => {
  await client.put({ topic: "held", payload: "x" });
  const { ended } = program(`
    const held = client.deliveries("held");
    await held.next();
    const waiting = client.reserve(["nothing"], { waitMs: 3_600_000 });
    const closed = waiting.catch((fault) => console.log(fault.name));
    await client.put({ topic: "held", payload: "y", afterMs: 3_600_000 });
    client.close();
    await closed;
  `);
  assert.deepEqual(await ended, [0, null]);
});

for (const [what, pauseMs, signals] of [["two signals at one instant wait", 0, 2], ["a second signal after a second does not wait", 1_100, 2]] as const) {
  test(`${what} for the handlers`, { timeout: 60_000 }, async () => {
    const topic = `signals-${pauseMs}`;
    const { running, line, ended } = program(`
      new Worker(client, ${JSON.stringify(topic)}, async () => {
        const told = new Promise((resolve) => process.once("SIGUSR2", resolve));
        console.log("begun");
        await told;
      }, { closeTimeoutMs: 50_000 });
    `);
    await client.put({ topic, payload: "x" });
    assert.equal(await line(), "begun");
    for (let n = 0; n < signals; n++) {
      running.kill("SIGTERM");
      await new Promise((resolve) => setTimeout(resolve, pauseMs)); // it is what the second one is counted from
    }
    if (pauseMs === 0) running.kill("SIGUSR2");
    assert.deepEqual(await ended, [null, "SIGTERM"]);
    const { delivered, ready, leased } = await client.topic(topic).count();
    assert.deepEqual([delivered, ready, leased], pauseMs === 0 ? [1, 0, 0] : [0, 1, 0]);
  });
}
