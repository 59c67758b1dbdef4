/** Connections to a Redis Cluster and by a Sentinel, used as they are given. */

import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";
import type { Cluster, Redis } from "ioredis";
import { Client, Worker } from "../src/index.js";
import { Watch } from "../src/watch.js";
import { Fleet, init } from "./server.js";

let fleet: Fleet;
beforeEach(() => (fleet = new Fleet()));
afterEach(() => fleet.stop());

/** Puts by one client, and works on what another's worker is handed, in turn. */
async function handsOver(redis: Redis | Cluster, ids: string[], meanwhile = async (_id: string): Promise<void> => undefined) {
  const client = new Client(redis, { namespace: "fleet" });
  const handed: string[] = [];
  let wake = (): void => undefined;
  const handler = ({ id }: { id: string }) => {
    handed.push(id);
    wake();
  };
  const worker = new Worker(client, "orders", handler, { stopOn: [], onError: () => undefined });
  for (const [n, id] of ids.entries()) {
    await meanwhile(id);
    const put = () => client.put({ topic: "orders", id, payload: "x" });
    for (let stored = false; !stored; ) stored = await put().then(({ accepted }) => accepted, () => false);
    while (handed.length <= n) await new Promise<void>((resolve) => (wake = resolve));
  }
  await worker.close();
  client.close();
  redis.disconnect();
  assert.deepEqual(handed, ids);
}

test("a Redis Cluster serves every shard, and its wake-ups are heard on every node", async () => {
  const pollMs = Watch.pollMs;
  Watch.pollMs = 60_000; // a poll would come too late
  const cluster = await fleet.cluster();
  await init(cluster, "fleet", 8);
  await handsOver(cluster, Array.from({ length: 24 }, (_, n) => `order-${n}`));
  Watch.pollMs = pollMs;
});

test("a failover by Sentinel is followed", async () => {
  const { redis, killMaster } = await fleet.sentinel();
  await init(redis, "fleet", 2);
  await redis.wait(1, 0);
  await handsOver(redis, ["before", "after"], async (id) => (id === "after" ? killMaster() : undefined));
});
