/** Several independent Redises that keep a deployment together. */

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import type { Redis } from "ioredis";
import { Client, connect, Incomplete, InvalidMessage, ScriptError, Worker, type RedisNode } from "../src/index.js";
import { placesOf } from "../src/names.js";
import { call, init, RedisGroup, Server } from "./server.js";

/** Ids of messages in the even or the odd shards of four. */
function ids(name: string, isEven: boolean, count: number): string[] {
  const all = Array.from({ length: 1000 }, (_, n) => `${name}-${n}`);
  return all.filter((id) => (placesOf(Buffer.from(id), [4])[0]! % 2 === 0) === isEven).slice(0, count);
}

/** Creates a deployment of so many shards, the even ones at the first node. */
async function create(nodes: readonly RedisNode[], namespace: string, shards: number): Promise<void> {
  for (let shard = 0; shard < shards; shard++) {
    const node = nodes[[1, 3].includes(shard) ? 1 : 0]!;
    const made = await call(node.redis, namespace, "init", shard, `1@${node.name}`, [shard, shards]);
    assert.equal(String(made), "created");
  }
}

/** A worker that records the messages it received. */
function work(client: Client, pump = false): { worker: Worker; has: (ids: string[]) => Promise<void> } {
  const handed = new Set<string>();
  let wake = (): void => undefined;
  const handler = ({ id }: { id: string }): void => {
    handed.add(id);
    wake();
  };
  const worker = new Worker(client, "orders", handler, { pump, stopOn: [], onError: () => undefined });
  const has = async (ids: string[]): Promise<void> => {
    while (!ids.every((id) => handed.has(id))) await new Promise<void>((resolve) => (wake = resolve));
  };
  return { worker, has };
}

describe("of two Redises", { timeout: 120_000 }, () => {
  let servers: Server[];
  let nodes: RedisNode[];
  before(async () => {
    servers = [await Server.start(), await Server.start()];
    nodes = [
      { name: "a", redis: servers[0]!.connect(), shards: "0,2" },
      { name: "b", redis: servers[1]!.connect(), shards: "1,3" },
    ];
  });
  after(async () => {
    for (const { redis } of nodes) redis.disconnect();
    for (const server of servers) await server.stop();
  });

  test("a wrong list of nodes is refused by name", () => {
    const { redis } = nodes[0]!;
    for (const [shards, why] of [
      [[], "no node is given"],
      [[["a b", "0"]], '"a b" is not a valid node'],
      [[["a", "0"], ["a", "1"]], "two nodes have the name a"],
      [[["a", "0-1"], ["b", "1"]], "shard 1 has two nodes: a and b"],
      [[["a", "0,2"]], "shard 1 has no node"],
      [[["a", "3-1"]], '"3-1" is not a list of shards'],
      [[["a", ""]], "no node is given"],
      [[["a", "0-4096"]], '"0-4096" is not a list of shards'],
    ] as [[string, string][], string][]) {
      const make = () => new Client(shards.map(([name, shards]) => ({ name, redis, shards })));
      assert.throws(make, (fault) => fault instanceof InvalidMessage && fault.message.includes(why), why);
    }
    new Client([{ name: "a", redis, shards: "0" }, { name: "b", redis, shards: "" }]).close();
  });

  test("a shard of another deployment is refused by name", async () => {
    const { redis } = nodes[0]!;
    await init(redis, "foreign", 2);
    for (const shard of [0, 1]) await redis.hset(`{foreign:${shard}}:meta`, "identity", "0a".repeat(16));
    const client = new Client(redis, { namespace: "foreign" });
    await client.topic("orders").count();
    await redis.hset("{foreign:1}:meta", { identity: "0b".repeat(16), layout: "2", counts: "2,4" });
    const why = /shard 1 is of deployment 0b0b0b0b, and this client serves deployment 0a0a0a0a/;
    await assert.rejects(client.topic("orders").count(), why);
    client.close();
  });

  test("a call that a wrong map sends to another node is refused by name", async () => {
    await create(nodes, "wrong", 4);
    const [a, b] = nodes as [RedisNode, RedisNode];
    for (const [given, why] of [
      [[{ ...a, redis: b.redis }, { ...b, redis: a.redis }], "DQUNINITIALISED {wrong:0}:meta does not exist (node a)"],
      [[{ ...a, name: "x" }, { ...b, name: "y" }], "recorded on node a, but this client has it on node x"],
      [a.redis, "recorded on node a, but this client has it on one Redis without a node's name"],
    ] as [RedisNode[] | Redis, string][]) {
      const client = new Client(given, { namespace: "wrong" });
      const put = client.put({ topic: "orders", id: "order-0", payload: "x" });
      await assert.rejects(put, (fault) => fault instanceof ScriptError && fault.message.includes(why), why);
      client.close();
    }
  });

  test("a node that is away stops only its shards", async () => {
    await create(nodes, "away", 4);
    const client = new Client(nodes, { namespace: "away" });
    const [held, lost, others] = [ids("held", true, 1), ids("lost", true, 1), ids("other", false, 20)];
    await client.put({ topic: "orders", id: held[0]!, payload: "x" });
    await servers[0]!.kill();
    const fresh = new Client(nodes, { namespace: "away" }); // one that begins meanwhile
    const { worker, has } = work(fresh);
    const puts = client.putMany([...lost, ...others].map((id) => ({ topic: "orders", id, payload: "x" })));
    await assert.rejects(puts, (fault) => {
      assert.deepEqual((fault as Incomplete).outcomes.map(({ word }) => word), ["unanswered", ...others.map(() => "ready")]);
      return true;
    });
    await has(others);
    for (const [n, waitMs] of [0, 60_000].entries()) {
      await client.put({ topic: "mails", id: others[n]!, payload: "x" });
      assert.equal((await client.reserve(["mails"], { waitMs })).length, 1);
    }
    await servers[0]!.restart();
    await has(held);
    await worker.close();
    for (const one of [client, fresh]) one.close();
  });

  test("a node that is silent delays no pump of another", async () => {
    await create(nodes, "silent", 4);
    const client = new Client(nodes, { namespace: "silent" });
    const { worker, has } = work(client, true);
    const putAll = (ids: string[]) => Promise.all(ids.map((id) => client.put({ topic: "orders", id, payload: "x", afterMs: 50 })));
    const [held, others, later, again] = [ids("held", true, 5), ids("other", false, 5), ids("later", false, 5), ids("again", true, 1)] as const;
    await putAll([...held, ...others]);
    await has([...held, ...others]);
    servers[0]!.signal("SIGSTOP");
    const began = performance.now();
    await putAll(later);
    await has(later);
    const tookMs = performance.now() - began;
    servers[0]!.signal("SIGCONT");
    await putAll(again);
    await has(again);
    await worker.close();
    client.close();
    assert.ok(tookMs < 4_000, String(tookMs)); // less than the deadline of a call
  });

  test("a shard whose node is not given fails by name, and the others are served", async () => {
    await create([{ ...nodes[0]!, shards: "0,2,4" }, nodes[1]!], "fewer", 5);
    const client = new Client(nodes, { namespace: "fewer" });
    const puts = client.putMany(Array.from({ length: 50 }, (_, n) => ({ topic: "orders", id: `order-${n}`, payload: "x" })));
    await assert.rejects(puts, (fault) => {
      const { outcomes, cause } = fault as Incomplete;
      assert.match(String(cause), /shard 4 has no node among those that were given, of 0 to 3/);
      assert.deepEqual([...new Set(outcomes.filter(({ accepted }) => accepted).map(({ shard }) => shard))].sort(), [0, 1, 2, 3]);
      return true;
    });
    assert.ok((await client.reserve(["orders"], { max: 4, waitMs: 60_000 })).length > 0);
    client.close();
  });

  test("a shard that has moved is called and listened to at its new node", async () => {
    await create(nodes, "moved", 2);
    const client = new Client(nodes, { namespace: "moved" });
    const { worker, has } = work(client);
    const putAll = async (name: string): Promise<string[]> => {
      const all = Array.from({ length: 10 }, (_, n) => `${name}-${n}`);
      for (const id of all) await client.put({ topic: "orders", id, payload: "x" });
      return all;
    };
    await has(await putAll("before"));
    await nodes[0]!.redis.hset("{moved:0}:meta", "layout", "1>b:7");
    await call(nodes[1]!.redis, "moved", "init", 0, "1@b", [0, 2]);
    await has(await putAll("after"));
    while (((await nodes[1]!.redis.call("PUBSUB", "SHARDNUMSUB", "{moved:0}:ready")) as number[])[1] === 0);
    await has(await putAll("then"));
    await worker.close();
    client.close();
  });

  test("a shard that has moved to a node that is not given is refused by name", async () => {
    await create(nodes, "gone", 2);
    await nodes[0]!.redis.hset("{gone:0}:meta", "layout", "1>c");
    const client = new Client(nodes, { namespace: "gone" });
    const why = "shard 0 has moved to node c, which is not among those given";
    await assert.rejects(client.topic("orders").count(), (fault) => fault instanceof ScriptError && fault.message.includes(why));
    client.close();
  });

  test("a node may be the master that sentinels name", async () => {
    const group = await RedisGroup.start("sentinel");
    const byName = connect(group.url) as Redis;
    byName.on("error", () => undefined);
    const named = [{ ...nodes[0]!, redis: byName }, nodes[1]!];
    await create(named, "named", 4);
    const client = new Client(named, { namespace: "named" });
    const { worker, has } = work(client);
    const putAll = async (name: string): Promise<string[]> => {
      const all = Array.from({ length: 20 }, (_, n) => `${name}-${n}`);
      for (const id of all) while (!(await client.put({ topic: "orders", id, payload: "x" }).then(({ accepted }) => accepted, () => false)));
      return all;
    };
    await has(await putAll("before"));
    await group.does("kill", "{named:0}:meta");
    await has(await putAll("after"));
    await worker.close();
    client.close();
    byName.disconnect();
    await group.stop();
  });
});
