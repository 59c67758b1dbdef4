/** Redis by sentinels, Redis Cluster and nodes: servers that die, are silent, or hand slots or shards over. */

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type AddressInfo } from "node:net";
import { after, before, describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import type { Cluster, Redis } from "ioredis";
import { Client, connect, Worker } from "../src/index.js";
import { connectionFor } from "../src/connections.js";
import { placesOf } from "../src/names.js";
import { Watch } from "../src/watch.js";
import { init, RedisGroup } from "./server.js";

const SHARDS = 8;

/** A deployment, a client, and the ids that a worker received. */
class Run {
  readonly handed: string[] = [];
  readonly client: Client;
  readonly redises: (Redis | Cluster)[];
  private readonly redis: Redis | Cluster;
  private worker?: Worker;
  private wake = (): void => undefined;

  /** Connects by one URL, or by the URLs of the nodes `a` (all shards) and `b` (none). */
  constructor(urls: string, readonly namespace: string, options = {}) {
    this.redises = urls.split(" ").map((url) => connect(url));
    for (const redis of this.redises) redis.on("error", () => undefined);
    const [a, b] = this.redises as [Redis, Redis?];
    const nodes = b && [{ name: "a", redis: a, shards: `0-${SHARDS - 1}` }, { name: "b", redis: b, shards: "" }];
    this.redis = a;
    this.client = new Client(nodes ?? a, { namespace, ...options });
  }

  static async start(url: string, namespace: string, options = {}): Promise<Run> {
    const run = new Run(url, namespace, options);
    await init(run.redis, namespace, SHARDS);
    return run;
  }

  work(): void {
    const handler = ({ id }: { id: string }) => {
      this.handed.push(id);
      this.wake();
    };
    this.worker = new Worker(this.client, "orders", handler, { stopOn: [], onError: () => undefined });
  }

  key(shard: number): string {
    return `{${this.namespace}:${shard}}:meta`;
  }

  /** Puts a message into every shard, repeating until accepted, and returns the ids. */
  async putAll(name: string, count = 4 * SHARDS): Promise<string[]> {
    const ids = Array.from({ length: count }, (_, n) => `${name}-${n}`);
    for (const id of ids) {
      const put = () => this.client.put({ topic: "orders", id, payload: "x" });
      for (let stored = false; !stored; await sleep(5)) stored = await put().then(({ accepted }) => accepted, () => false);
    }
    return ids;
  }

  /** Puts for as long as servers are harmed: the ids. */
  async putWhile(name: string, harm: Promise<void>): Promise<string[]> {
    const ids: string[] = [];
    let isOver = false;
    const harmed = harm.finally(() => (isOver = true));
    while (!isOver) ids.push(...(await this.putAll(`${name}-${ids.length}`, 1)));
    await harmed;
    return ids;
  }

  /** Has puts wait for a replica. */
  async replicate(): Promise<void> {
    const isSet = () => this.client.topic("orders").setPolicy({ durability: "replica:1" }).then(() => true, () => false);
    while (!(await isSet())) await sleep(5); // a node may not know yet who succeeded one that was killed
  }

  /** Waits until all of these were handed out. */
  async has(ids: string[]): Promise<void> {
    while (!ids.every((id) => this.handed.includes(id))) await new Promise<void>((resolve) => (this.wake = resolve));
  }

  /** Ids of messages in the shards of the node that has shard 0, or in all other shards. */
  ids(there: boolean, name: string, count: number): string[] {
    const nodes = Array.from({ length: SHARDS }, (_, shard) => connectionFor(this.client["calls"].redis, this.key(shard)));
    const all = Array.from({ length: 100 * count }, (_, n) => `${name}-${n}`);
    const isThere = (id: string) => nodes[placesOf(Buffer.from(id), [SHARDS])[0]!] === nodes[0];
    return all.filter((id) => isThere(id) === there).slice(0, count);
  }

  /** Lets replicas of a cluster take over from failed masters, or forbids a takeover. */
  async succeed(theyDo: boolean): Promise<void> {
    const nodes = (this.redis as Cluster).nodes("all");
    await Promise.all(nodes.map((node) => node.config("SET", "cluster-replica-no-failover", theyDo ? "no" : "yes")));
  }

  async stop(): Promise<void> {
    await this.worker?.close();
    this.client.close();
    for (const redis of this.redises) redis.disconnect();
  }
}

for (const kind of ["sentinel", "cluster"]) {
  describe(kind, () => {
    let group: RedisGroup;
    const pollMs = Watch.pollMs;
    before(async () => {
      Watch.pollMs = 1_000_000; // a poll would come too late
      group = await RedisGroup.start(kind);
    });
    after(async () => {
      Watch.pollMs = pollMs;
      await group.stop();
    });

    test("a call whose answer is lost is not sent again", async () => {
      const run = await Run.start(group.url, "silent", { timeoutMs: 500 });
      const five = Array.from({ length: 5 }, () => ({ topic: "orders", payload: "x", group: "user-5" }));
      const { shard } = (await run.client.putMany(five))[0]!;
      await group.does("freeze", run.key(shard));
      await assert.rejects(run.client.reserve(["orders"]), { name: "TimeoutError" });
      await group.does("thaw", run.key(shard));
      const count = () => run.client.topic("orders").count().catch(() => undefined);
      let numbers = await count();
      while (numbers === undefined) numbers = await count(); // it may have been succeeded
      assert.ok(numbers.leased <= 1 && numbers.ready + numbers.leased === 5, JSON.stringify(numbers));
      await run.stop();
    });

    test("a worker goes on at the successor of a master that was killed", async () => {
      const run = await Run.start(group.url, "killed");
      run.work();
      await run.has(await run.putAll("before"));
      // Puts answered by the dying master may be lost.
      await run.putWhile("meanwhile", group.does("kill", run.key(0)));
      await run.has(await run.putAll("after"));
      await run.stop();
    });

    const bySentinel = { skip: kind === "cluster", timeout: 60_000 };
    test("a failover that is heard of while a connection is made does not end it for good", bySentinel, async () => {
      const run = await Run.start(group.url, "heard");
      await run.putAll("before", 1);
      const own = run.client["calls"].redis as any;
      own.once("connecting", () => own.connector.disconnect()); // as ioredis does then
      const ended = new Promise((resolve) => own.once("end", resolve));
      own.disconnect(true);
      await ended;
      await run.putAll("after", 1);
      await run.stop();
    });

    test("a silent sentinel is passed over", bySentinel, async () => {
      const silent = createServer((socket) => socket.resume()).listen(0, "127.0.0.1");
      await once(silent, "listening");
      const url = group.url.replace("//", `//127.0.0.1:${(silent.address() as AddressInfo).port},`);
      const run = await Run.start(url, "passed-over");
      await run.putAll("by-url", 1);
      const asIoredisHasIt = connect(url, { sentinelCommandTimeout: undefined });
      const client = new Client(asIoredisHasIt, { namespace: run.namespace });
      assert.equal((await client.put({ topic: "orders", id: "given", payload: "x" })).word, "ready");
      client.close();
      asIoredisHasIt.disconnect();
      await run.stop();
      silent.close();
    });

    test("a worker gets what the other nodes have while one is silent", { skip: kind === "sentinel", timeout: 60_000 }, async () => {
      const run = await Run.start(group.url, "slow", { timeoutMs: 600_000 });
      await run.client.topic("orders").count(); // knows the nodes
      const [held, others] = [run.ids(true, "held", 1), run.ids(false, "other", 100)];
      await run.client.put({ topic: "orders", id: held[0]!, payload: "x" });
      await run.succeed(false);
      await group.does("freeze", run.key(0));
      Watch.pollMs = 1; // the silent one is soon asked
      run.work();
      for (const id of others) {
        await run.client.put({ topic: "orders", id, payload: "x" });
        await run.has([id]); // if each waited for the silent node, it would not come
      }
      assert.ok(!run.handed.includes(held[0]!));
      Watch.pollMs = 1_000_000;
      await group.does("thaw", run.key(0));
      await run.has(held);
      await run.succeed(true);
      await run.stop();
    });

    const waits = { skip: kind === "sentinel", timeout: 60_000 };
    test("the other nodes answer calls that wait while one is silent", waits, async () => {
      const run = await Run.start(group.url, "mute", { timeoutMs: 600_000 });
      await run.replicate();
      await run.client.topic("orders").count(); // knows the nodes
      await run.client.put({ topic: "orders", id: run.ids(false, "known", 1)[0]!, payload: "x" }); // knows what to wait for
      await run.succeed(false);
      await group.does("freeze", run.key(0));
      // Each makes a connection, which asks any node whether the cluster is well.
      await Promise.all(run.ids(false, "other", 8).map(async (id) => {
        const put = () => run.client.putMany([{ topic: "orders", id, payload: "x" }]).then(() => true, () => false);
        while (!(await put())) await sleep(5);
      }));
      await group.does("thaw", run.key(0));
      await run.succeed(true);
      await run.stop();
    });

    test("a node whose connection ended is reached by the next call that waits", waits, async () => {
      const run = await Run.start(group.url, "ended");
      await run.replicate();
      const put = (id: string) => run.client.put({ topic: "orders", id, payload: "x" });
      const [before, after] = run.ids(true, "order", 2);
      await put(before!);
      const [own] = run.client["calls"]["waiting"]["all"] as Set<Cluster>;
      const node = connectionFor(own!, run.key(0))!;
      const ended = new Promise((resolve) => node.once("end", resolve));
      node.disconnect();
      await ended;
      assert.equal((await put(after!)).word, "ready");
      await run.stop();
    });

    for (const durability of ["memory", "replica:1"] as const) {
      const name = `a slot that goes to another server and back loses and repeats nothing: ${durability}`;
      test(name, { skip: kind === "sentinel" }, async () => {
        const run = await Run.start(group.url, `moved-${durability.slice(0, 4)}`);
        const isSet = () => run.client.topic("orders").setPolicy({ durability }).then(() => true, () => false);
        while (!(await isSet())) await sleep(5); // a node may not know yet who succeeded one that was killed
        run.work();
        const ids = await run.putAll("before");
        for (const way of ["there", "back"]) {
          ids.push(...(await run.putWhile(way, group.does("move", run.key(0)))));
          await run.has(ids);
          ids.push(...(await run.putAll(`after-${way}`)));
        }
        await run.has(ids);
        assert.deepEqual(run.handed.sort(), ids.sort());
        await run.stop();
      });
    }
  });
}

test("nothing is lost or comes twice while delayq moves half of the shards to a new node", { timeout: 120_000 }, async () => {
  const group = await RedisGroup.start("nodes");
  const run = new Run(group.url, "dq");
  run.work();
  const ids = await run.putAll("before");
  ids.push(...(await run.putWhile("meanwhile", group.does("shards", "4-7"))));
  ids.push(...(await run.putAll("after")));
  await run.has(ids);
  assert.deepEqual(run.handed.sort(), ids.sort());
  assert.equal(await (run.redises[1] as Redis).hget(run.key(7), "layout"), "1@b");
  await run.stop();
  await group.stop();
});
