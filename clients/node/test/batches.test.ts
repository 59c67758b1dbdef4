/** Many messages at a time, and those that cannot be read. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Redis } from "ioredis";
import { Client } from "../src/index.js";
import { startServer, type Server } from "./server.js";

let server: Server;
let redis: Redis;
before(async () => {
  server = await startServer();
  redis = server.connect();
});
after(async () => {
  redis.disconnect();
  await server.stop();
});

async function deployment(namespace: string, shards: number): Promise<Client> {
  const client = new Client(redis, { namespace, shards });
  await client.send(Array.from({ length: shards }, (_, shard) => ({ verb: "init", shard, args: [shard, shards] })));
  return client;
}

test("more than one call takes goes in several, answered in order", async () => {
  const client = await deployment("many", 2);
  const message = (n: number) => ({ topic: `t${n % 2}`, id: `m${n}`, payload: "x".repeat(4096), atMs: 1 });
  const puts = await client.putMany(Array.from({ length: 2500 }, (_, n) => message(n)));
  puts.forEach((put, n) => assert.deepEqual([put.id.toString(), put.answer.word], [`m${n}`, "ready"]));
  const receipts = [];
  for (;;) {
    const { deliveries } = await client.reserve(["t0", "t1"], 500);
    if (deliveries.length === 0) break;
    receipts.push(...deliveries.map((delivery) => delivery.receipt));
  }
  assert.equal(receipts.length, 2500);
  const answers = await client.ack([...receipts, { shard: 0, raw: Buffer.from("1:none0000") }]);
  assert.deepEqual(answers.map((answer) => answer.word), [...receipts.map(() => "delivered"), "expired"]);
});

test("a message that cannot be read does not stop its neighbours", async () => {
  const client = await deployment("broken", 1);
  const envelope = Buffer.concat([Buffer.from([1, 1, 0, 16]), Buffer.alloc(28), Buffer.from([0, 9, 1])]);
  await client.send([{ verb: "put", shard: 0, args: ["t", "broken", "1", "", envelope] }]);
  await client.put({ topic: "t", id: "whole", payload: "x", atMs: 1 });
  const { deliveries, broken } = await client.reserve(["t"], 10);
  assert.deepEqual(deliveries.map(({ id }) => id.toString()), ["whole"]);
  assert.match(broken[0]!.why, /malformed/);
  assert.deepEqual(await client.bury([broken[0]!.receipt], broken[0]!.why), [{ word: "buried" }]);
});
