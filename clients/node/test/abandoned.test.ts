/** Puts whose caller gives up, and cancels after such puts. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Redis } from "ioredis";
import { Client, TimeoutError, type Delivery } from "../src/index.js";
import { commandsDuring, init, Server } from "./server.js";

let server: Server;
let redis: Redis;
let client: Client;
before(async () => {
  server = await Server.start();
  redis = server.connect();
  await init(redis, "dq", 4);
  client = new Client(redis);
});
after(async () => {
  client.close();
  redis.disconnect();
  await server.stop();
});

const later = (id: string) => ({ topic: "orders", id, payload: "x", afterMs: 3_600_000 });

test("a put that is given up before it is sent is not sent", async () => {
  await client.cancel("orders", "none"); // so that the shards are known, and the script
  const giveUp = new AbortController();
  const commands = await commandsDuring(redis, async () => {
    const put = client.put(later("given-up"), { signal: giveUp.signal });
    giveUp.abort(new Error("nobody waits"));
    await assert.rejects(put, /nobody waits/);
    assert.equal((await client.cancel("orders", "given-up")).word, "unknown");
  });
  assert.equal(await client.get("orders", "given-up"), undefined);
  assert.equal(commands.filter((command) => command === "evalsha").length, 1, String(commands));
});

test("a cancel finds the put that its caller has not waited for, or has given up", async () => {
  for (const isGivenUp of [false, true]) {
    const fresh = new Client(redis);
    const giveUp = new AbortController();
    const ids = Array.from({ length: 2_000 }, (_, n) => `unawaited-${isGivenUp}-${n}`); // more than go at a time
    const puts = ids.map((id) => fresh.put(later(id), { signal: giveUp.signal }));
    const settled = Promise.allSettled(puts);
    if (isGivenUp) {
      await Promise.race(puts);
      giveUp.abort();
    }
    const cancels = await Promise.all(ids.map((id) => fresh.cancel("orders", id)));
    await settled;
    fresh.close();
    const words = new Set(cancels.map(({ word }) => word));
    assert.deepEqual(isGivenUp ? words.has("cancelled") : [...words], isGivenUp ? true : ["cancelled"]);
  }
  assert.equal((await client.topic("orders").count()).delayed, 0);
});

test("a change of a group finds the puts before it, whether anybody has waited for them or not", async () => {
  const fresh = new Client(redis);
  const puts = Array.from({ length: 2_000 }, (_, n) => fresh.put({ ...later(`grouped-${n}`), ...(n % 2 ? { id: undefined } : {}), group: "user-5" }));
  const many = fresh.putMany(Array.from({ length: 500 }, (_, n) => ({ ...later(`many-${n}`), group: "user-5" })));
  assert.equal((await fresh.group("user-5").shift(1_000)).moved, 2_500);
  await Promise.all([...puts, many]);
  const more = fresh.put({ ...later("grouped-more"), group: "user-5" });
  assert.equal((await fresh.group("user-5").cancel()).cancelled, 2_501);
  await more;
  fresh.close();
});

test("of two settlements of one message the first one holds, whatever is gathered with them", async () => {
  const [one, other] = ["settled-1", "settled-2"];
  for (const id of [one, other]) await client.put({ ...later(id!), afterMs: 0, topic: "settled" });
  const held: Delivery[] = [];
  while (held.length < 2) held.push(...(await client.reserve(["settled"], { max: 2, waitMs: 5_000 })));
  // One call for each verb of a batch: in the order of the verbs the second bury would come before the release.
  const words = await Promise.all([held[0]!.bury("no such user"), held[1]!.release({ delayMs: 60_000 }), held[1]!.bury("no such user")]);
  assert.deepEqual(words.map(({ word }) => word), ["buried", "delayed", "expired"]);
  const again = await client.put({ ...later("settled-3"), afterMs: 0, topic: "settled" });
  assert.ok(again.accepted);
  const [{ receipt }] = (await client.reserve(["settled"], { waitMs: 5_000 })) as any;
  const both = await Promise.all([client.release([receipt], { delayMs: 60_000 }), client.ack([receipt])]);
  assert.deepEqual(both.map(([outcome]) => outcome!.word), ["delayed", "expired"]);
});

test("a put whose time is up before there is a connection is not sent later", async () => {
  const own = await Server.start();
  const direct = own.connect();
  await init(direct, "dq", 1);
  const hasty = new Client(new Redis({ path: own.socket, lazyConnect: true }), { timeoutMs: 200 });
  own.signal("SIGSTOP");
  const fault = await hasty.put(later("too-late")).catch((why: unknown) => why);
  own.signal("SIGCONT");
  assert.ok(fault instanceof TimeoutError && !fault.isSent, String(fault));
  assert.equal((await new Client(direct).cancel("orders", "too-late")).word, "unknown");
  while ((await hasty.put(later("in-time")).catch(() => undefined))?.word === undefined);
  assert.equal((await hasty.topic("orders").count()).delayed, 1);
  hasty.close();
  direct.disconnect();
  await own.stop();
});
