/** Puts of many callers, and puts refused before anything is sent. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Redis } from "ioredis";
import { Client, InvalidMessage, Worker } from "../src/index.js";
import { commandsDuring, init, Server } from "./server.js";

let server: Server;
let redis: Redis;
let client: Client;
before(async () => {
  server = await Server.start();
  redis = server.connect();
  await init(redis, "dq", 16);
  client = new Client(redis);
});
after(async () => {
  redis.disconnect();
  await server.stop();
});

const message = { topic: "orders", payload: "x" };

test("500 puts at once go together, and each caller gets its own answer", async () => {
  const puts = (by: Client) => Promise.all(Array.from({ length: 500 }, (_, n) => by.put({ ...message, id: `m-${n}`, afterMs: n })));
  await puts(client);
  let answers: Awaited<ReturnType<typeof puts>> = [];
  const all = await commandsDuring(redis, async () => (answers = await puts(new Client(redis))));
  const commands = all.filter((command) => command.startsWith("eval")); // others open its connection
  assert.deepEqual(answers.map(({ id, word }) => [id, word]), answers.map((_, n) => [`m-${n}`, "exists"]));
  assert.ok(commands.length <= 2 + 16, `${commands.length} commands: two to learn the number of shards, one a shard`);
});

test("callers that were answered together keep two calls under way, and a lone put waits for no other", async () => {
  await init(redis, "one", 1);
  const one = new Client(redis, { namespace: "one" });
  const puts = (count: number, round: string) => commandsDuring(redis, () =>
    Promise.all(Array.from({ length: count }, (_, n) => one.put({ ...message, id: `${round}-${n}`, afterMs: 60_000 }))));
  await puts(1, "first");
  for (const [count, calls] of [[64, 2], [31, 1], [1, 1]] as const) {
    const commands = await puts(count, `round-${count}`);
    assert.equal(commands.filter((command) => command === "evalsha").length, calls, `${count}: ${commands}`);
  }
  one.close();
});

test("one message that is refused takes no other with it", async () => {
  const answers = await Promise.allSettled([client.put({ ...message, id: "" }), client.put({ ...message, id: "fine" })]);
  assert.deepEqual(answers.map(({ status }) => status), ["rejected", "fulfilled"]);
});

const anyClient: any = () => client;
const REFUSED: Record<string, [(client: any) => Promise<unknown>, RegExp]> = {
  "seconds for milliseconds": [(c) => c.put({ ...message, at: 1_800_000_000 }), /at: 1800000000 ms.*1970-01-21.*1800000000000 \(2027.*pastOk/],
  "a Date of seconds": [(c) => c.put({ ...message, at: new Date(1_800_000_000) }), /if seconds were meant, give 1800000000000/],
  "an expiry in seconds": [(c) => c.put({ ...message, expires: 1_800_000_000 }), /expires: 1800000000 ms/],
  "a change to seconds": [(c) => c.reschedule("t", "i", { at: 1_800_000_000 }), /at: 1800000000 ms/],
  "an invalid date": [(c) => c.put({ ...message, at: new Date("soon") }), /at is Invalid Date/],
  "a delay below 0": [(c) => c.put({ ...message, afterMs: -1 }), /afterMs is -1: milliseconds, at least 0/],
  "a delay that is text": [(c) => c.put({ ...message, afterMs: "5m" }), /afterMs is "5m", not a number of milliseconds/],
  "two due times": [(c) => c.put({ ...message, at: new Date(), afterMs: 1 }), /one due time/],
  "two rules for a put again": [(c) => c.put({ ...message, throttleMs: 1, only: "later" }), /one due time/],
  "a throttle without an id": [(c) => c.put({ ...message, id: undefined, throttleMs: 1 }), /throttleMs and swallowMs need an id of your own/],
  "a misspelt field": [(c) => c.put({ ...message, atMs: 1 }), /a message has no atMs; it has topic, payload/],
  "a payload that is an object": [(c) => c.put({ ...message, payload: {} }), /a payload is text or bytes; JSON.stringify/],
  "a topic that is missing": [(c) => c.put({ payload: "x" }), /a topic is text, not undefined/],
  "a text for the topics": [(c) => c.reserve("orders"), /topics is a list, not "orders"/],
  "no topic": [(c) => c.reserve([]), /topics is empty/],
  "a lease of 0": [(c) => c.reserve(["t"], { leaseMs: 0 }), /leaseMs is 0: milliseconds, at least 1/],
  "a difference that is text": [(c) => c.reschedule("t", "i", { byMs: "1m", expected: new Date() }), /byMs is "1m": whole milliseconds/],
  "a release that is misspelt": [(c) => c.release([], { delay: 5 }), /a release has no delay/],
  "a receipt for receipts": [(c) => c.ack({ shard: 0 }), /receipts is a list/],
  "a message for messages": [(c) => c.putMany(message), /messages is a list/],
  "a wait below 0": [(c) => c.reserve(["t"], { waitMs: -1 }), /waitMs is -1/],
  "too many at once": [(c) => c.reserve(["t"], { max: 501 }), /max is 501: a whole number, 1 to 500/],
  "a worker without a handler": [async (c) => new Worker(c, "t", {} as any), /third argument, its handler, is a function/],
  "a namespace in the place of the options": [async () => new Client(redis, "dq" as any), /second argument of Client is an object { namespace.*"dq"/],
};
for (const [what, [call, why]] of Object.entries(REFUSED)) {
  test(`${what} is refused by name`, () =>
    assert.rejects(async () => call(anyClient()), (fault: Error) => fault instanceof InvalidMessage && why.test(fault.message)));
}

test("a time before 2001 that is meant is accepted", async () => {
  assert.equal((await client.put({ ...message, at: 1_800_000_000, pastOk: true })).word, "ready");
});

test("dates are accepted for every time", async () => {
  const [at, expires, firstTried] = [new Date(4_102_444_800_000), new Date(4_102_444_900_000), new Date()];
  const put = await client.put({ ...message, id: "dated", at, expires, firstTried });
  assert.deepEqual([put.word, put.timeMs], ["stored", at.getTime()]);
  const later = new Date(at.getTime() + 1);
  assert.equal((await client.reschedule("orders", "dated", { at: later, expected: at })).word, "delayed");
  const { dueMs, expiresMs } = (await client.get("orders", "dated"))!;
  assert.deepEqual([dueMs, expiresMs], [later.getTime(), expires.getTime()]);
});
