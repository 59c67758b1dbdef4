/** Every option of every call, with odd values: refused by name before anything is sent, or accepted unchanged. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Redis } from "ioredis";
import { Client, connect, InvalidMessage, Worker } from "../src/index.js";
import { commandsDuring, init, Server, vectors } from "./server.js";

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

const HALF = "\ud800";
const ODD: Record<string, unknown> = {
  null: null, NaN: NaN, Infinity: Infinity, "-Infinity": -Infinity, "-1": -1, "0.5": 0.5, "2^31": 2 ** 31, "2^53": 2 ** 53, "1n": 1n,
  "empty text": "", "a space": " ", "'false'": "false", "'5'": "5", "{}": {}, "[]": [], "a function": () => 1, "a symbol": Symbol("s"),
  "a lone surrogate": HALF, "5 MB": "x".repeat(5_000_000), true: true, "seconds": 1_800_000_000, "microseconds": 1.8e15,
};
/** Valid odd values by kind of option. */
const TAKES = {
  time: [],
  span: ["0.5", "2^31", "seconds", "microseconds"],
  lease: ["0.5"],
  timer: ["0.5", "seconds"],
  flag: ["true"],
  topic: ["'false'", "'5'"],
  count: [],
  list: ["[]"],
  function: ["a function"],
  none: [],
} as const;

const message = { topic: "orders", id: "node-1", payload: "x", afterMs: 60_000 };
const receipt = { shard: 0, raw: Buffer.from("1:node-1\0\0\0\x01") };
type Call = (c: any, odd: any) => unknown;
const protocol = vectors("protocol.json");
/** An entry of protocol.json: kind and range of an option. */
type Entry = { kind: string; least?: number; most?: number; words?: string[]; isSetting?: boolean };
const ENTRIES: Record<string, Entry> = Object.fromEntries([
  ...protocol.options.map((one: any) => [`${one.call} ${one.option}`, one]),
  ...protocol.settings.map((one: any) => [`configure ${one.name}`, { ...one, isSetting: true }]),
]);
const camel = (name: string): string => name.replaceAll(/_(\w)/g, (_, letter) => letter.toUpperCase());

/** Each option of protocol.json. */
const SHARED: Record<string, Call> = {
  "put topic": (c, odd) => c.put({ ...message, topic: odd }),
  "put payload": (c, odd) => c.put({ ...message, payload: odd }),
  "put id": (c, odd) => c.put({ ...message, id: odd }),
  "put at": (c, odd) => c.put({ ...message, afterMs: undefined, at: odd }),
  "put after": (c, odd) => c.put({ ...message, afterMs: odd }),
  "put group": (c, odd) => c.put({ ...message, group: odd }),
  "put header name": (c, odd) => c.put({ ...message, headers: [[odd, "v"]] }),
  "put header value": (c, odd) => c.put({ ...message, headers: [["n", odd]] }),
  "put expires": (c, odd) => c.put({ ...message, expires: odd }),
  "put expire_after": (c, odd) => c.put({ ...message, expireAfterMs: odd }),
  "put max_attempts": (c, odd) => c.put({ ...message, maxAttempts: odd }),
  "put backoff": (c, odd) => c.put({ ...message, backoff: odd }),
  "put replace": (c, odd) => c.put({ ...message, replace: odd }),
  "put debounce": (c, odd) => c.put({ ...message, debounceMs: odd }),
  "put throttle": (c, odd) => c.put({ ...message, throttleMs: odd }),
  "put swallow": (c, odd) => c.put({ ...message, swallowMs: odd }),
  "put only": (c, odd) => c.put({ ...message, only: odd }),
  "put keep_content": (c, odd) => c.put({ ...message, keepContent: odd }),
  "put expected": (c, odd) => c.put({ ...message, expected: odd }),
  "put expected_content": (c, odd) => c.put({ ...message, expectedContent: odd }),
  "put first_tried": (c, odd) => c.put({ ...message, firstTried: odd }),
  "cancel topic": (c, odd) => c.cancel(odd, "i"),
  "cancel id": (c, odd) => c.cancel("t", odd),
  "cancel group": (c, odd) => c.cancel("t", "i", odd),
  "get topic": (c, odd) => c.get(odd, "i"),
  "get id": (c, odd) => c.get("t", odd),
  "get group": (c, odd) => c.get("t", "i", odd),
  "reschedule topic": (c, odd) => c.reschedule(odd, "i", { afterMs: 1 }),
  "reschedule id": (c, odd) => c.reschedule("t", odd, { afterMs: 1 }),
  "reschedule group": (c, odd) => c.reschedule("t", "i", { afterMs: 1 }, odd),
  "reschedule at": (c, odd) => c.reschedule("t", "i", { at: odd }),
  "reschedule after": (c, odd) => c.reschedule("t", "i", { afterMs: odd }),
  "reschedule by": (c, odd) => c.reschedule("t", "i", { byMs: odd, expected: new Date() }),
  "reschedule expected": (c, odd) => c.reschedule("t", "i", { afterMs: 1, expected: odd }),
  "reserve topic": (c, odd) => c.reserve([odd]),
  "reserve max": (c, odd) => c.reserve(["t"], { max: odd }),
  "reserve lease": (c, odd) => c.reserve(["t"], { leaseMs: odd }),
  "reserve wait": (c, odd) => c.reserve(["t"], { waitMs: odd, signal: AbortSignal.abort() }),
  "extend receipt": (c, odd) => c.extend([odd]),
  "extend lease": (c, odd) => c.extend([receipt], odd),
  "ack receipt": (c, odd) => c.ack([odd]),
  "release receipt": (c, odd) => c.release([odd]),
  "release delay": (c, odd) => c.release([receipt], { delayMs: odd }),
  "release keep_attempt": (c, odd) => c.release([receipt], { keepAttempt: odd }),
  "release reason": (c, odd) => c.release([receipt], { reason: odd }),
  "bury receipt": (c, odd) => c.bury([odd], "why"),
  "bury reason": (c, odd) => c.bury([receipt], odd),
  "replay topic": (c, odd) => c.topic(odd).replay(["i"]),
  "replay id": (c, odd) => c.topic("t").replay([odd]),
  "replay group": (c, odd) => c.topic("t").replay(["i"], { group: odd }),
  "replay delay": (c, odd) => c.topic("t").replay(["i"], { delayMs: odd }),
  "list topic": (c, odd) => c.topic(odd).list("dead").next(),
  "list state": (c, odd) => c.topic("t").list(odd).next(),
  "list from": (c, odd) => c.topic("t").list("dead", { from: odd }).next(),
  "list to": (c, odd) => c.topic("t").list("dead", { to: odd }).next(),
  "promote topic": (c, odd) => c.topic(odd).promote(),
  "promote from": (c, odd) => c.topic("t").promote({ from: odd }),
  "promote to": (c, odd) => c.group("g").promote({ to: odd }),
  "purge topic": (c, odd) => c.topic(odd).purge("dead"),
  "purge state": (c, odd) => c.topic("t").purge(odd),
  "purge from": (c, odd) => c.topic("t").purge("dead", { from: odd }),
  "purge to": (c, odd) => c.topic("t").purge("dead", { to: odd }),
  "group group": (c, odd) => c.group(odd).list().next(),
  "group topic": (c, odd) => c.group("g", { topic: odd }).list().next(),
  "shift by": (c, odd) => c.group("g").shift(odd),
  "shift token": (c, odd) => c.group("g").shift(1, { token: odd }),
  "client namespace": (_, odd) => new Client(redis, { namespace: odd }).close(),
  "client max_payload_bytes": (_, odd) => new Client(redis, { maxPayloadBytes: odd }).close(),
  "client confirm_timeout": (_, odd) => new Client(redis, { confirmTimeoutMs: odd }).close(),
  "worker topic": (c, odd) => new Worker(c, odd, () => 1, { stopOn: [] }).close(),
  "worker concurrency": (c, odd) => new Worker(c, "t", () => 1, { stopOn: [], concurrency: odd }).close(),
  "worker lease": (c, odd) => new Worker(c, "t", () => 1, { stopOn: [], leaseMs: odd }).close(),
  "worker pump": (c, odd) => new Worker(c, "t", () => 1, { stopOn: [], pump: odd }).close(),
  ...Object.fromEntries(protocol.settings.map(({ name, kind }: any) => {
    const field = camel(name) + (kind === "span" ? "Ms" : "");
    return [`configure ${name}`, (c: any, odd: any) => c.topic("policies").setPolicy({ [field]: odd })];
  })),
};

/** Reports whether a value is valid for an entry of protocol.json. */
function isValid({ kind, least = 0, most = 0, words = [], isSetting }: Entry, odd: unknown): boolean {
  if (odd === null) return isSetting === true;
  const form = protocol.names.find(({ what }: any) => what === kind);
  const isText = typeof odd === "string" && odd !== HALF;
  if (form) return isText && odd.length <= form.max_bytes && new RegExp(`^${form.characters}+$`).test(odd);
  if (kind === "text") return isText && odd.length <= protocol.limits.header_bytes;
  if (kind === "bytes") return isText && odd.length <= protocol.limits.payload_bytes;
  if (kind === "reason") return isText;
  if (kind === "word") return isText && words.some((word) => new RegExp(`^(${word})$`).test(odd));
  if (kind === "flag") return typeof odd === "boolean";
  if (typeof odd !== "number") return false;
  if (kind === "time") return odd >= protocol.limits.first_meant_ms && odd <= protocol.limits.last_meant_ms;
  if (kind === "difference") return Number.isSafeInteger(odd);
  return (kind !== "count" || Number.isInteger(odd)) && ["count", "span", "rate"].includes(kind) && Math.ceil(odd) >= least && odd <= most;
}

test("every option of the protocol is tried with every odd value", () => {
  assert.deepEqual(Object.keys(SHARED).sort(), Object.keys(ENTRIES).sort());
  assert.deepEqual(protocol.odd.filter((name: string) => !(name in ODD)), []);
});

/** Each option of this client alone. */
const OPTIONS: Record<string, [keyof typeof TAKES, Call]> = {
  "put headers": ["list", (c, odd) => c.put({ ...message, headers: odd })],
  "put header": ["none", (c, odd) => c.put({ ...message, headers: [odd] })],
  "put backoff kind": ["none", (c, odd) => c.put({ ...message, backoff: { kind: odd, delaysMs: [1] } })],
  "put backoff delaysMs": ["none", (c, odd) => c.put({ ...message, backoff: { kind: "fixed", delaysMs: odd } })],
  "put pastOk": ["flag", (c, odd) => c.put({ ...message, pastOk: odd })],
  "put signal": ["none", (c, odd) => c.put(message, { signal: odd })],
  "put's options": ["none", (c, odd) => c.put(message, Object.keys(odd ?? [1]).length === 0 && typeof odd === "object" ? 7 : odd)],
  "putMany messages": ["list", (c, odd) => c.putMany(odd)],
  "reschedule byMs expected": ["time", (c, odd) => c.reschedule("t", "i", { byMs: 1, expected: odd })],
  "reschedule change": ["none", (c, odd) => c.reschedule("t", "i", odd)],
  "topic": ["topic", (c, odd) => c.topic(odd).count()],
  "extend receipts": ["list", (c, odd) => c.extend(odd)],
  "release receipts": ["list", (c, odd) => c.release(odd)],
  "bury receipts": ["list", (c, odd) => c.bury(odd, "why")],
  "receipt shard": ["none", (c, odd) => c.ack([{ ...receipt, shard: odd }])],
  "replayAll from": ["time", (c, odd) => c.topic("t").replayAll({ from: odd })],
  "replayAll pastOk": ["flag", (c, odd) => c.topic("t").replayAll({ pastOk: odd })],
  "list pastOk": ["flag", (c, odd) => c.topic("t").list("dead", { pastOk: odd }).next()],
  "deliveries leaseMs": ["lease", (c, odd) => c.deliveries("t", { leaseMs: odd })],
  "worker handler": ["function", (c, odd) => new Worker(c, "t", odd, { stopOn: [] }).close()],
  "worker onError": ["function", (c, odd) => new Worker(c, "t", () => 1, { stopOn: [], onError: odd }).close()],
  "connect url": ["none", (_, odd) => connect(odd)],
  "node name": ["topic", (_, odd) => new Client([{ name: odd, redis, shards: "0" }]).close()],
  "node redis": ["none", (_, odd) => new Client([{ name: "a", redis: odd, shards: "0" }]).close()],
  "node shards": ["none", (_, odd) => new Client([{ name: "a", redis, shards: odd }]).close()],
  "reschedule pastOk": ["flag", (c, odd) => c.reschedule("t", "i", { at: new Date(), pastOk: odd })],
  "reserve promoteUntil": ["none", (c, odd) => c.reserve(["t"], { promoteUntil: odd })],
  "reserve signal": ["none", (c, odd) => c.reserve(["t"], { signal: odd })],
  "reserve topics": ["none", (c, odd) => c.reserve(odd)],
  "ack receipts": ["list", (c, odd) => c.ack(odd)],
  "receipt raw": ["none", (c, odd) => c.ack([{ shard: 0, raw: odd }])],
  "replay ids": ["list", (c, odd) => c.topic("t").replay(odd)],
  "replayAll delayMs": ["span", (c, odd) => c.topic("t").replayAll({ delayMs: odd })],
  "deliveries concurrency": ["count", (c, odd) => c.deliveries("t", { concurrency: odd })],
  "deliveries onError": ["function", (c, odd) => c.deliveries("t", { onError: odd })],
  "worker closeTimeoutMs": ["timer", (c, odd) => new Worker(c, "t", () => 1, { closeTimeoutMs: odd, stopOn: [] }).close()],
  "worker stopOn": ["list", (c, odd) => new Worker(c, "t", () => 1, { stopOn: odd }).close()],
  "worker stopOn signal": ["none", (c, odd) => new Worker(c, "t", () => 1, { stopOn: [odd] }).close()],
  "client timeoutMs": ["lease", (_, odd) => new Client(redis, { timeoutMs: odd }).close()],
  "client connection": ["none", (_, odd) => new Client(odd).close()],
};
function tried(what: string, call: Call, isTaken: (name: string, odd: unknown) => boolean): void {
  test(`no odd value is taken for another: ${what}`, async () => {
    for (const [name, odd] of Object.entries(ODD)) {
      let fault: unknown;
      const commands = await commandsDuring(redis, async () => {
        try {
          await call(client, odd);
        } catch (thrown) {
          fault = thrown;
        }
      });
      if (isTaken(name, odd)) {
        assert.equal(fault, undefined, `${what} = ${name}: ${fault}`);
      } else {
        assert.ok(fault instanceof InvalidMessage, `${what} = ${name} is ${fault === undefined ? "taken" : fault}`);
        assert.ok(fault.message.length < 400, fault.message);
        assert.deepEqual(commands.filter((one) => one.startsWith("eval")), [], `${what} = ${name}`);
      }
    }
  });
}
for (const [what, call] of Object.entries(SHARED)) tried(what, call, (_, odd) => isValid(ENTRIES[what]!, odd));
for (const [what, [kind, call]] of Object.entries(OPTIONS)) {
  const takes: readonly string[] = TAKES[kind];
  tried(what, call, (name) => takes.includes(name));
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
