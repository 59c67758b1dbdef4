/** Connections for calls that wait for replicas. There are none here: a call that Redis answers rejects with Unconfirmed. */

import assert from "node:assert/strict";
import { once } from "node:events";
import { after, before, test } from "node:test";
import { setImmediate as turn, setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { Client } from "../src/index.js";
import { end, ownConnection } from "../src/connections.js";
import { init, Proxy, Server } from "./server.js";

let server: Server;
let redis: Redis;
before(async () => {
  server = await Server.start();
  redis = server.connect();
  await init(redis, "dq", 1);
  const client = new Client(redis);
  await client.topic("orders").setPolicy({ durability: "replica:1" });
  assert.equal(await fault(client), "Unconfirmed");
  client.close();
});
after(async () => {
  redis.disconnect();
  await server.stop();
});

/** A client by way of a proxy that is late with each answer. */
async function behind(lateMs: number, timeoutMs: number): Promise<{ proxy: Proxy; client: Client; stop: () => Promise<void> }> {
  const proxy = await Proxy.start(server.socket, lateMs);
  const given = new Redis({ path: proxy.socket, lazyConnect: true });
  const client = new Client(given, { timeoutMs, confirmTimeoutMs: 20 });
  const stop = async (): Promise<void> => {
    client.close();
    given.disconnect();
    await proxy.stop();
  };
  return { proxy, client, stop };
}

/** Why a put fails. Puts by `putMany` are not gathered. */
async function fault(client: Client, id = "order-1"): Promise<string> {
  const put = client.putMany([{ topic: "orders", id, payload: "x", afterMs: 3_600_000 }]);
  return put.then(() => "none", (fault: Error) => fault.name);
}

for (const [timeoutMs, what] of [[700, "it takes"], [1_000, "it and an answer take"]] as const) {
  test(`a connection is made although ${what} longer than a waiting call has`, async () => {
    const { client, stop } = await behind(400, timeoutMs); // it can be used after two answers
    const faults: string[] = [];
    while (faults.length < 12 && !faults.includes("Unconfirmed")) faults.push(await fault(client));
    await stop();
    assert.deepEqual([...new Set(faults)], ["TimeoutError", "Unconfirmed"]); // none is enough if each call makes its own
  });
}

test("waiting calls do not each make a connection while Redis is silent, and get one once it answers", async () => {
  const { proxy, client, stop } = await behind(0, 50);
  while ((await fault(client)) !== "Unconfirmed");
  const taken = proxy.taken;
  server.signal("SIGSTOP");
  for (let n = 0; n < 40; n++) await fault(client);
  const made = proxy.taken - taken;
  server.signal("SIGCONT");
  while ((await fault(client)) !== "Unconfirmed");
  await stop();
  assert.ok(made < 10, `${made} connections`); // a silent one is given up once a second
});

test("a connection is not used again while it owes an answer", async () => {
  const { proxy, client, stop } = await behind(0, 500);
  for (const used of [2, 2]) {
    assert.equal(await fault(client), "Unconfirmed");
    assert.equal(proxy.taken, used); // the other one is for calls that do not wait
  }
  proxy.silence();
  assert.equal(await fault(client), "TimeoutError");
  assert.equal(await fault(client), "Unconfirmed");
  assert.equal(proxy.taken, 3);
  await stop();
});

test("a call that is waiting for its turn makes no connection once its client is closed", { timeout: 30_000 }, async () => {
  const { proxy, client, stop } = await behind(0, 600_000);
  assert.equal(await fault(client), "Unconfirmed");
  server.signal("SIGSTOP");
  const puts = Array.from({ length: 9 }, (_, n) => fault(client, `order-${n}`));
  while (proxy.taken < 9) await turn(); // eight for those that have a turn
  client.close();
  const faults = await Promise.all(puts);
  server.signal("SIGCONT");
  await stop();
  assert.deepEqual([...new Set(faults)], ["ClosedError"]);
  assert.equal(proxy.taken, 9);
});

test("a connection that is closed after it ended is not made again", async () => {
  const own = ownConnection(redis) as Redis;
  await own.connect();
  own.disconnect();
  await once(own, "end");
  end(own);
  await sleep(300);
  assert.equal(own.status, "end");
});
