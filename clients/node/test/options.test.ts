/** Every option of every call, with odd values: refused by name before anything is sent, or taken as what it is. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Redis } from "ioredis";
import { Client, connect, InvalidMessage, Worker } from "../src/index.js";
import { commandsDuring, init, Server } from "./server.js";

let server: Server;
let redis: Redis;
let client: Client;
before(async () => {
  server = await Server.start();
  redis = server.connect();
  await init(redis, "dq", 1);
  client = new Client(redis);
  await client.get("orders", "none");
});
after(async () => {
  client.close();
  redis.disconnect();
  await server.stop();
});

const ODD: Record<string, unknown> = {
  null: null, NaN: NaN, Infinity: Infinity, "-Infinity": -Infinity, "-1": -1, "0.5": 0.5, "2^31": 2 ** 31, "2^53": 2 ** 53, "1n": 1n,
  "empty text": "", "a space": " ", "'false'": "false", "'5'": "5", "{}": {}, "[]": [], "a function": () => 1, "a symbol": Symbol("s"),
  "a lone surrogate": "\ud800", "5 MB": "x".repeat(5_000_000), true: true, "seconds": 1_800_000_000, "microseconds": 1.8e15,
};
/** Of each kind of option, the odd values that it takes. */
const TAKES = {
  time: [],
  span: ["0.5", "2^31", "seconds", "microseconds"],
  lease: ["0.5"],
  timer: ["0.5", "seconds"],
  flag: ["true"],
  text: ["'false'", "'5'", "a space"],
  reason: ["empty text", "a space", "'false'", "'5'", "5 MB"],
  topic: ["'false'", "'5'"],
  payload: ["empty text", "a space", "'false'", "'5'"],
  count: [],
  attempts: [],
  list: ["[]"],
  difference: ["-1", "2^31", "seconds", "microseconds"],
  function: ["a function"],
  none: [],
} as const;

const message = { topic: "orders", id: "node-1", payload: "x", afterMs: 60_000 };
const receipt = { shard: 0, raw: Buffer.from("1:node-1\0\0\0\x01") };
type Call = (c: any, odd: any) => unknown;
const OPTIONS: Record<string, [keyof typeof TAKES, Call]> = {
  "put topic": ["topic", (c, odd) => c.put({ ...message, topic: odd })],
  "put payload": ["payload", (c, odd) => c.put({ ...message, payload: odd })],
  "put id": ["text", (c, odd) => c.put({ ...message, id: odd })],
  "put at": ["time", (c, odd) => c.put({ ...message, afterMs: undefined, at: odd })],
  "put afterMs": ["span", (c, odd) => c.put({ ...message, afterMs: odd })],
  "put group": ["text", (c, odd) => c.put({ ...message, group: odd })],
  "put headers": ["list", (c, odd) => c.put({ ...message, headers: odd })],
  "put header": ["none", (c, odd) => c.put({ ...message, headers: [odd] })],
  "put header name": ["topic", (c, odd) => c.put({ ...message, headers: [[odd, "v"]] })],
  "put header value": ["payload", (c, odd) => c.put({ ...message, headers: [["n", odd]] })],
  "put expires": ["time", (c, odd) => c.put({ ...message, expires: odd })],
  "put maxAttempts": ["attempts", (c, odd) => c.put({ ...message, maxAttempts: odd })],
  "put backoff": ["none", (c, odd) => c.put({ ...message, backoff: odd })],
  "put backoff kind": ["none", (c, odd) => c.put({ ...message, backoff: { kind: odd, delaysMs: [1] } })],
  "put backoff delaysMs": ["none", (c, odd) => c.put({ ...message, backoff: { kind: "fixed", delaysMs: odd } })],
  "put replace": ["flag", (c, odd) => c.put({ ...message, replace: odd })],
  "put firstTried": ["time", (c, odd) => c.put({ ...message, firstTried: odd })],
  "put pastOk": ["flag", (c, odd) => c.put({ ...message, pastOk: odd })],
  "put signal": ["none", (c, odd) => c.put(message, { signal: odd })],
  "put's options": ["none", (c, odd) => c.put(message, Object.keys(odd ?? [1]).length === 0 && typeof odd === "object" ? 7 : odd)],
  "putMany messages": ["list", (c, odd) => c.putMany(odd)],
  "cancel topic": ["topic", (c, odd) => c.cancel(odd, "i")],
  "cancel id": ["text", (c, odd) => c.cancel("t", odd)],
  "cancel group": ["text", (c, odd) => c.cancel("t", "i", odd)],
  "get id": ["text", (c, odd) => c.get("t", odd)],
  "reschedule at": ["time", (c, odd) => c.reschedule("t", "i", { at: odd })],
  "reschedule afterMs": ["span", (c, odd) => c.reschedule("t", "i", { afterMs: odd })],
  "reschedule byMs": ["difference", (c, odd) => c.reschedule("t", "i", { byMs: odd, expected: new Date() })],
  "reschedule expected": ["time", (c, odd) => c.reschedule("t", "i", { afterMs: 1, expected: odd })],
  "reschedule byMs expected": ["time", (c, odd) => c.reschedule("t", "i", { byMs: 1, expected: odd })],
  "reschedule topic": ["topic", (c, odd) => c.reschedule(odd, "i", { afterMs: 1 })],
  "reschedule id": ["text", (c, odd) => c.reschedule("t", odd, { afterMs: 1 })],
  "reschedule group": ["text", (c, odd) => c.reschedule("t", "i", { afterMs: 1 }, odd)],
  "reschedule change": ["none", (c, odd) => c.reschedule("t", "i", odd)],
  "get topic": ["topic", (c, odd) => c.get(odd, "i")],
  "get group": ["text", (c, odd) => c.get("t", "i", odd)],
  "group": ["text", (c, odd) => c.group(odd).list().next()],
  "group topic": ["topic", (c, odd) => c.group("g", { topic: odd }).list().next()],
  "topic": ["topic", (c, odd) => c.topic(odd).count()],
  "reserve topic": ["topic", (c, odd) => c.reserve([odd])],
  "reserve waitMs": ["none", (c, odd) => c.reserve(["t"], { waitMs: odd, signal: AbortSignal.abort() })],
  "extend receipts": ["list", (c, odd) => c.extend(odd)],
  "release receipts": ["list", (c, odd) => c.release(odd)],
  "bury receipts": ["list", (c, odd) => c.bury(odd, "why")],
  "receipt shard": ["none", (c, odd) => c.ack([{ ...receipt, shard: odd }])],
  "replay id": ["text", (c, odd) => c.topic("t").replay([odd])],
  "replay group": ["text", (c, odd) => c.topic("t").replay(["i"], { group: odd })],
  "replayAll from": ["time", (c, odd) => c.topic("t").replayAll({ from: odd })],
  "replayAll pastOk": ["flag", (c, odd) => c.topic("t").replayAll({ pastOk: odd })],
  "list to": ["time", (c, odd) => c.topic("t").list("dead", { to: odd }).next()],
  "list pastOk": ["flag", (c, odd) => c.topic("t").list("dead", { pastOk: odd }).next()],
  "purge from": ["time", (c, odd) => c.topic("t").purge("dead", { from: odd })],
  "deliveries leaseMs": ["lease", (c, odd) => c.deliveries("t", { leaseMs: odd })],
  "worker handler": ["function", (c, odd) => new Worker(c, "t", odd, { stopOn: [] }).close()],
  "worker concurrency": ["count", (c, odd) => new Worker(c, "t", () => 1, { stopOn: [], concurrency: odd }).close()],
  "worker leaseMs": ["lease", (c, odd) => new Worker(c, "t", () => 1, { stopOn: [], leaseMs: odd }).close()],
  "worker onError": ["function", (c, odd) => new Worker(c, "t", () => 1, { stopOn: [], onError: odd }).close()],
  "connect url": ["none", (_, odd) => connect(odd)],
  "node name": ["topic", (_, odd) => new Client([{ name: odd, redis, shards: "0" }]).close()],
  "node redis": ["none", (_, odd) => new Client([{ name: "a", redis: odd, shards: "0" }]).close()],
  "node shards": ["none", (_, odd) => new Client([{ name: "a", redis, shards: odd }]).close()],
  "reschedule pastOk": ["flag", (c, odd) => c.reschedule("t", "i", { at: new Date(), pastOk: odd })],
  "reserve max": ["count", (c, odd) => c.reserve(["t"], { max: odd })],
  "reserve leaseMs": ["lease", (c, odd) => c.reserve(["t"], { leaseMs: odd })],
  "reserve signal": ["none", (c, odd) => c.reserve(["t"], { signal: odd })],
  "reserve topics": ["none", (c, odd) => c.reserve(odd)],
  "extend leaseMs": ["lease", (c, odd) => c.extend([receipt], odd)],
  "ack receipts": ["list", (c, odd) => c.ack(odd)],
  "ack receipt": ["none", (c, odd) => c.ack([odd])],
  "receipt raw": ["none", (c, odd) => c.ack([{ shard: 0, raw: odd }])],
  "release delayMs": ["span", (c, odd) => c.release([receipt], { delayMs: odd })],
  "release keepAttempt": ["flag", (c, odd) => c.release([receipt], { keepAttempt: odd })],
  "release reason": ["reason", (c, odd) => c.release([receipt], { reason: odd })],
  "bury reason": ["reason", (c, odd) => c.bury([receipt], odd)],
  "shift byMs": ["difference", (c, odd) => c.group("g").shift(odd)],
  "shift token": ["text", (c, odd) => c.group("g").shift(1, { token: odd })],
  "replay ids": ["list", (c, odd) => c.topic("t").replay(odd)],
  "replay delayMs": ["span", (c, odd) => c.topic("t").replay(["i"], { delayMs: odd })],
  "replayAll delayMs": ["span", (c, odd) => c.topic("t").replayAll({ delayMs: odd })],
  "list state": ["none", (c, odd) => c.topic("t").list(odd).next()],
  "list from": ["time", (c, odd) => c.topic("t").list("dead", { from: odd }).next()],
  "promote from": ["time", (c, odd) => c.topic("t").promote({ from: odd })],
  "promote to": ["time", (c, odd) => c.group("g").promote({ to: odd })],
  "purge state": ["none", (c, odd) => c.topic("t").purge(odd)],
  "purge to": ["time", (c, odd) => c.topic("t").purge("dead", { to: odd })],
  "deliveries concurrency": ["count", (c, odd) => c.deliveries("t", { concurrency: odd })],
  "deliveries onError": ["function", (c, odd) => c.deliveries("t", { onError: odd })],
  "worker closeTimeoutMs": ["timer", (c, odd) => new Worker(c, "t", () => 1, { closeTimeoutMs: odd, stopOn: [] }).close()],
  "worker stopOn": ["list", (c, odd) => new Worker(c, "t", () => 1, { stopOn: odd }).close()],
  "worker stopOn signal": ["none", (c, odd) => new Worker(c, "t", () => 1, { stopOn: [odd] }).close()],
  "client timeoutMs": ["timer", (_, odd) => new Client(redis, { timeoutMs: odd }).close()],
  "client confirmTimeoutMs": ["timer", (_, odd) => new Client(redis, { confirmTimeoutMs: odd }).close()],
  "client maxPayloadBytes": ["count", (_, odd) => new Client(redis, { maxPayloadBytes: odd }).close()],
  "client namespace": ["topic", (_, odd) => new Client(redis, { namespace: odd }).close()],
  "client connection": ["none", (_, odd) => new Client(odd).close()],
  ...Object.fromEntries(Object.entries({
    maxAttempts: "count", leaseMs: "lease", expireAfterMs: "span", rememberOwnMs: "span", rememberCancelledMs: "span", rememberGeneratedMs: "span", deadForMs: "span",
    history: "none", rate: "none", historyForMs: "span", deadMax: "policyCount", paused: "flag",
    repeats: "none", codec: "none", durability: "none", backoff: "none",
  }).map(([field, kind]) => [`policy ${field}`, [kind, (c: any, odd: any) => c.topic("policies").setPolicy({ [field]: odd })]])) as any,
};
/** Options that accept values which other options of their kind refuse. */
const TAKEN: Record<string, readonly string[]> = {
  "policy maxAttempts": ["null"], "policy leaseMs": ["null", "0.5"], "policy expireAfterMs": ["null", ...TAKES.span], "policy rememberOwnMs": ["null", ...TAKES.span],
  "policy rememberCancelledMs": ["null", ...TAKES.span], "policy rememberGeneratedMs": ["null", ...TAKES.span], "policy deadForMs": ["null", ...TAKES.span],
  "policy history": ["null"], "policy rate": ["null", "0.5"], "reserve waitMs": ["0.5", "2^31", "seconds", "microseconds"],
  "policy historyForMs": ["null", "2^31", "seconds", "microseconds"], "policy deadMax": ["null", "2^31", "seconds"], "policy paused": ["null", "true"],
  "policy repeats": ["null"], "policy codec": ["null"], "policy durability": ["null"], "policy backoff": ["null"],
  "client maxPayloadBytes": [], "client connection": [], "put signal": [],
  "receipt raw": [], "promote from": [], "promote to": [], "purge to": [], "list from": [],
};

for (const [what, [kind, call]] of Object.entries(OPTIONS)) {
  test(`no odd value is taken for another: ${what}`, async () => {
    const takes: readonly string[] = TAKEN[what] ?? TAKES[kind];
    for (const [name, odd] of Object.entries(ODD)) {
      let fault: unknown;
      const commands = await commandsDuring(redis, async () => {
        try {
          await call(client, odd);
        } catch (thrown) {
          fault = thrown;
        }
      });
      if (takes.includes(name)) {
        assert.equal(fault, undefined, `${what} = ${name}: ${fault}`);
      } else {
        assert.ok(fault instanceof InvalidMessage, `${what} = ${name} is ${fault === undefined ? "taken" : fault}`);
        assert.ok(fault.message.length < 400, fault.message);
        assert.deepEqual(commands.filter((one) => one.startsWith("eval")), [], `${what} = ${name}`);
      }
    }
  });
}

test("an unknown option is refused by name in every call", async () => {
  const calls: ((c: any, odd: object) => unknown)[] = [
    (c, odd) => c.put({ ...message, ...odd }), (c, odd) => c.put(message, odd), (c, odd) => c.reschedule("t", "i", { afterMs: 1, ...odd }),
    (c, odd) => c.reserve(["t"], odd), (c, odd) => c.release([receipt], odd), (c, odd) => c.group("g").shift(1, odd), (c, odd) => c.group("g", odd).cancel(), (c, odd) => c.ack([{ ...receipt, ...odd }]),
    (c, odd) => c.topic("t").replay([], odd), (c, odd) => c.topic("t").replayAll(odd), (c, odd) => c.topic("t").purge("dead", odd),
    (c, odd) => c.topic("t").setPolicy(odd), (c, odd) => c.deliveries("t", odd), (c, odd) => new Worker(c, "t", () => 1, odd as any),
    (_, odd) => new Client(redis, odd as any), (c, odd) => c.put({ ...message, backoff: { kind: "fixed", delaysMs: [1], ...odd } }),
  ];
  for (const call of calls) {
    await assert.rejects(async () => call(client, { mispelt: 1 }), (fault) => fault instanceof InvalidMessage && /has no mispelt/.test(fault.message), String(call));
  }
});

test("microseconds for milliseconds are refused, and named", async () => {
  const fault = /at: 1893456000000000 ms .* if microseconds were meant, give 1893456000000 \(2030-01-01T00:00:00.000Z\)/;
  await assert.rejects(client.put({ ...message, afterMs: undefined, at: 1_893_456_000_000_000 }), fault);
  await assert.rejects(client.topic("t").purge("dead", { from: 1_893_456_000 }), /from: 1893456000 ms/);
});

for (const options of [{ stringNumbers: true }, { enableAutoPipelining: true }, { enableOfflineQueue: false }, { commandTimeout: 1 }, { lazyConnect: true }]) {
  test(`a client does not take over ${JSON.stringify(options)} of its connection`, async () => {
    const given = new Redis({ path: server.socket, ...options, lazyConnect: true });
    const odd = new Client(given);
    await client.topic("numbers").purge("delayed");
    await odd.put({ topic: "numbers", payload: "x", afterMs: 60_000 });
    await odd.put({ topic: "numbers", payload: "x", afterMs: 90_000 });
    const { delayed, nextDueMs } = await odd.topic("numbers").count();
    assert.deepEqual([delayed, typeof nextDueMs], [2, "number"]);
    odd.close();
    given.disconnect();
  });
}

test("what a URL says of one Redis is taken or refused", async () => {
  const place = (url: string) => {
    const { host, port, path, db, username, password, tls } = (connect(url) as Redis).options;
    return { at: path ?? `${host}:${port}`, db, username: username ?? null, password: password ?? null, tls: tls !== undefined };
  };
  const plain = { username: null, password: null, tls: false };
  assert.deepEqual(place("redis://h"), { at: "h:6379", db: 0, ...plain });
  assert.deepEqual(place("redis://user:p%40ss@h:1?db=3"), { at: "h:1", db: 3, username: "user", password: "p@ss", tls: false });
  assert.deepEqual(place("rediss://:pw@[::1]:2/4"), { at: "::1:2", db: 4, username: null, password: "pw", tls: true });
  assert.deepEqual(place("unix:///run/r.sock?db=2&user=u&pass=p"), { at: "/run/r.sock", db: 2, username: "u", password: "p", tls: false });
  assert.deepEqual(place("redis+unix:///run/r.sock"), { at: "/run/r.sock", db: 0, ...plain });
  assert.deepEqual(place("/run/r.sock"), { at: "/run/r.sock", db: 0, ...plain });
  for (const [url, why] of [
    ["redis://h?database=1", /unknown parameter/], ["redis://:hunter2@h?database=1", /unknown parameter/], ["redis://h/1?db=2", /two databases/],
    ["redis://h/one", /not the number of a database/], ["redis://u:hun#ter2@h", /user or password/], ["redis://u:hun/ter2@h", /user or password/],
    ["redis://u:hun?ter2@h", /@ behind a \?/], ["redis://u:hunter2%@h", /user or password/], ["http://h", /another scheme/], ["h:6379", /another scheme/],
    ["redis://a,b", /names 2 hosts/], ["redis://", /names no Redis/], ["unix:///s?pass=hunter2&tls=1", /unknown parameter/], ["redis://h?db=1&db=2", /db twice/],
  ] as const) {
    assert.throws(() => connect(url), (fault: Error) => fault instanceof InvalidMessage && why.test(fault.message) && !/ter2/.test(fault.message), url);
  }
});
