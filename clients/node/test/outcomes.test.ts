/** The table of outcomes shared by all clients, and the results of real calls. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Redis } from "ioredis";
import { Client } from "../src/index.js";
import { outcomeOf } from "../src/outcome.js";
import { init, Server, vectors } from "./server.js";

let server: Server;
let redis: Redis;
let client: Client;
before(async () => {
  server = await Server.start();
  redis = server.connect();
  await init(redis, "dq", 1);
  client = new Client(redis);
});
after(async () => {
  client.close();
  redis.disconnect();
  await server.stop();
});

for (const { verb, answer, ...said } of vectors("outcomes.json").outcomes) {
  test(`an outcome is what all clients say: ${verb} ${answer}`, () => {
    const { word, accepted, timeMs, oldMs, state, why, doomed } = outcomeOf(answer, 0, "order-1");
    const named = { word, accepted, time_ms: timeMs, old_ms: oldMs, state, why, doomed: doomed || undefined };
    assert.deepEqual(JSON.parse(JSON.stringify(named)), said);
  });
}

test("a put that stored nothing is not accepted, and a cancel that was done is", async () => {
  const message = { topic: "orders", id: "node-1", payload: "x", afterMs: 60_000 };
  const put = await client.put(message);
  const moved = await client.reschedule("orders", "node-1", { afterMs: 120_000 });
  const cancelled = await client.cancel("orders", "node-1");
  const again = await client.put(message);
  assert.deepEqual([put, moved, cancelled, again].map(({ word, accepted }) => [word, accepted]), [
    ["stored", true], ["delayed", true], ["cancelled", true], ["exists", false],
  ]);
});
