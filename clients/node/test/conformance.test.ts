/** The conformance suite that all clients share (tests/vectors/README.md). */

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import type { Cluster, Redis } from "ioredis";
import { connectionFor } from "../src/connections.js";
import { Client, connect, Incomplete, InvalidMessage, ScriptError, Unconfirmed, type Delivery, type Message, type Outcome, type RedisNode } from "../src/index.js";
import { call, init, RedisGroup, Server, valkeyServer, vectors } from "./server.js";

/** A scenario in progress, with the variables bound by earlier steps. */
class Run {
  readonly bound = new Map<string, any>();
  /** Deliveries by receipt: a next message is put by one of them. */
  private readonly deliveries = new Map<unknown, Delivery>();

  constructor(
    readonly redis: Redis | Cluster,
    public client: Client,
    readonly namespace: string,
    /** Of a group with a replica: while the replica is frozen, calls go through the second client, which waits only briefly. */
    private readonly pair?: { group: RedisGroup; freeze: Client; thaw: Client },
  ) {}

  /** Fills the variables of a value in. */
  known(value: any): any {
    if (Array.isArray(value)) return value.map((item) => this.known(item));
    if (typeof value !== "string" || !value.startsWith("$")) return value;
    const [name, shift] = value.slice(1).split("+") as [string, string?];
    assert.ok(this.bound.has(name), `${name} is not bound`);
    return shift === undefined ? this.bound.get(name) : this.bound.get(name) + Number(shift);
  }

  /** Compares a result with the expected fields; a variable takes the first value. */
  compare(expected: any, got: any, place: string): void {
    if (typeof expected === "string" && /^\$\w+$/.test(expected)) {
      if (!this.bound.has(expected.slice(1))) this.bound.set(expected.slice(1), got);
      assert.deepEqual(got, this.bound.get(expected.slice(1)), place);
    } else if (Array.isArray(expected)) {
      assert.equal(got.length, expected.length, `${place}: ${JSON.stringify(got)}`);
      expected.forEach((item, i) => this.compare(item, got[i], `${place}[${i}]`));
    } else if (expected !== null && typeof expected === "object") {
      for (const [key, item] of Object.entries(expected)) this.compare(item, got[key], `${place}: ${key}`);
    } else {
      assert.deepEqual(got, this.known(expected), place);
    }
  }

  message(said: any): Message {
    return {
      topic: said.topic,
      payload: said.payload?.repeat(said.payload_times ?? 1) ?? Buffer.from(said.payload_hex, "hex"),
      id: said.id === undefined ? undefined : this.known(said.id),
      at: said.at_ms,
      afterMs: said.after_ms,
      pastOk: true,
      group: said.group,
      headers: said.headers,
      expires: said.expires_ms,
      expireAfterMs: said.expire_after_ms,
      maxAttempts: said.max_attempts,
      backoff: said.backoff && { kind: said.backoff.kind, delaysMs: said.backoff.delays_ms },
      replace: said.replace,
      debounceMs: said.debounce_ms,
      throttleMs: said.throttle_ms,
      swallowMs: said.swallow_ms,
      only: said.only,
      keepContent: said.keep_content,
      expected: said.expected_ms,
      expectedContent: said.expected_content,
      firstTried: said.first_tried_ms,
    };
  }

  async step(step: any): Promise<any> {
    const { op, topic, group } = step;
    if (op === "put") return shown(await this.client.put(this.message(step.message)));
    if (op === "put_many") {
      const said = step.messages ?? Array.from({ length: step.times }, (_, n) => numbered(step.message, n));
      return (await this.client.putMany(said.map((one: any) => this.message(one)))).map(shown);
    }
    if (op === "cancel") return shown(await this.client.cancel(topic, this.known(step.id), group));
    if (op === "reschedule") return shown(await this.client.reschedule(topic, this.known(step.id), this.change(step), group));
    if (op === "cancel_group") return this.client.group(group, { topic }).cancel();
    if (op === "shift_group") return this.client.group(group, { topic }).shift(step.by_ms);
    if (op === "freeze" || op === "thaw") {
      this.client = this.pair![op as "freeze" | "thaw"];
      return this.pair!.group.does(op, "");
    }
    if (op === "reserve") return this.reserve(step);
    if (op === "drain") return this.drain(step);
    if (op === "listening") {
      const channel = `{${this.namespace}:${step.shard}}:ready`;
      const listening = () => connectionFor(this.redis, channel)!.call("PUBSUB", "SHARDNUMSUB", channel);
      while (((await listening()) as number[])[1] === 0);
      return undefined;
    }
    if (op === "pump") {
      const moved = async () => (await this.script("pump", step.shard, 1, ["0", "500"])).slice(3, 5);
      while ((await moved()).every((count: number) => count === 0));
      return undefined;
    }
    if (op === "script") return this.script(step.verb, this.known(step.shard), step.layout ?? 1, step.args);
    if (op === "redis") {
      const [command, ...args] = step.args.map((arg: string) => arg.replace("NAMESPACE", this.namespace));
      if (command !== "SCRIPT" || !this.redis.isCluster) return this.redis.call(command, ...args);
      return Promise.all((this.redis as Cluster).nodes("master").map((node) => node.call(command, ...args))); // it says no key
    }
    return (await this.settle(op, step)).map(shown);
  }

  change(step: any): any {
    const expected = this.known(step.expected_ms);
    if (step.at_ms !== undefined) return { at: step.at_ms, expected, pastOk: true };
    return step.after_ms === undefined ? { byMs: step.by_ms, expected, pastOk: true } : { afterMs: step.after_ms, expected, pastOk: true };
  }

  /** Reserves, and waits if the step says so, during further steps. */
  async reserve(step: any): Promise<any> {
    const waiting = this.client.reserve(step.topics, { max: step.most, leaseMs: step.lease_ms, waitMs: step.wait_ms });
    for (const [i, other] of (step.meanwhile ?? []).entries()) await this.carryOut(other, `meanwhile, step ${i + 1}`);
    const found = await waiting;
    for (const delivery of found) this.deliveries.set(delivery.receipt, delivery);
    return found.map(shownDelivery);
  }

  /** Reserves and acks all that there is: how many. */
  async drain(step: any): Promise<number> {
    const receipts = [];
    for (;;) {
      const found = await this.client.reserve(step.topics, { max: 500 });
      if (found.length === 0) break;
      receipts.push(...found.map(({ receipt }) => receipt));
    }
    for (const { word } of await this.client.ack(receipts)) assert.equal(word, "delivered");
    return receipts.length;
  }

  async script(verb: string, shard: number | string, layout: number, args: any[]): Promise<any> {
    const bytes = args.map((arg) => (arg.hex === undefined ? arg : Buffer.from(arg.hex, "hex")));
    const reply = await call(this.redis, this.namespace, verb, Number(shard), layout, bytes);
    return Array.isArray(reply) ? reply : [reply];
  }

  settle(op: string, step: any): Promise<Outcome[]> {
    const receipts = this.known(step.receipts);
    if (op === "ack" && step.next !== undefined) return Promise.all([this.deliveries.get(receipts[0])!.ack(this.message(step.next))]);
    if (op === "ack") return this.client.ack(receipts);
    if (op === "extend") return this.client.extend(receipts, step.lease_ms);
    if (op === "bury") return this.client.bury(receipts, step.reason);
    assert.equal(op, "release");
    return this.client.release(receipts, {
      delayMs: step.delay_ms,
      keepAttempt: step.keep_attempt,
      reason: step.reason,
    });
  }

  async carryOut(step: any, place: string): Promise<void> {
    if (step.invalid) {
      const refused = async () => {
        if ((await this.step(step)).word === "refused") throw new InvalidMessage();
      };
      return assert.rejects(refused, InvalidMessage, place);
    }
    if (step.error || step.unconfirmed) {
      const expected = (fault: unknown) => {
        if (step.expect) this.compare(step.expect, (fault as Incomplete).outcomes.map(shown), place);
        const cause = step.expect ? (fault as Incomplete).cause : fault;
        if (step.unconfirmed) return cause instanceof Unconfirmed && cause.message.includes(step.unconfirmed);
        return cause instanceof ScriptError && cause.code === step.error;
      };
      return assert.rejects(this.step(step), expected, place);
    }
    const got = await this.step(step);
    if (step.op === "script") {
      (step.expect ?? []).forEach((item: string, i: number) => {
        if (item !== "*") assert.equal(String(got[i]), item, `${place}: ${got}`);
      });
    } else if (step.expect_each !== undefined) {
      got.forEach((one: any, n: number) => this.compare(numbered(step.expect_each, n), one, `${place}, ${n}`));
    } else if (step.expect !== undefined) {
      this.compare(step.expect, got, place);
    }
  }
}

/** A numbered message, or the expected result. */
function numbered(said: any, n: number): any {
  const fill = (value: any) => (typeof value === "string" ? value.replaceAll("#", String(n)) : value);
  return Object.fromEntries(Object.entries(said).map(([key, value]) => [key, fill(value)]));
}

function shown(outcome: Outcome): any {
  return { ...outcome, time_ms: outcome.timeMs, old_ms: outcome.oldMs };
}

function shownDelivery(delivery: Delivery): any {
  return {
    ...delivery,
    lease_end_ms: delivery.leaseEndMs,
    payload: delivery.payload.toString(),
    payload_hex: delivery.payload.toString("hex"),
    due_ms: delivery.dueMs,
    expires_ms: delivery.expiresMs,
    max_attempts: delivery.maxAttempts,
  };
}

for (const place of ["one Redis", "sentinel", "cluster"]) {
  describe(`of ${place}`, () => {
    let servers: Server | RedisGroup;
    let redis: Redis | Cluster;
    before(async () => {
      servers = place === "one Redis" ? await Server.start() : await RedisGroup.start(place);
      redis = servers instanceof Server ? servers.connect() : connect(servers.url);
    });
    after(async () => {
      redis.disconnect();
      await servers.stop();
    });
    for (const [number, scenario] of vectors("conformance.json").scenarios.entries()) {
      test(scenario.name, async () => {
        const namespace = `n${number}`;
        const run = new Run(redis, new Client(redis, { namespace }), namespace);
        for (let shard = 0; scenario.init !== false && shard < (scenario.shards ?? 1); shard++) {
          await run.script("init", shard, 1, [shard, scenario.shards ?? 1]);
        }
        for (const [i, step] of scenario.steps.entries()) await run.carryOut(step, `step ${i + 1} (${step.op})`);
        run.client.close();
      });
    }
    for (const scenario of vectors("durability.json").scenarios.filter(({ groups }: any) => groups && place !== "one Redis")) {
      test(scenario.name, async () => {
        await init(redis, "groups", scenario.shards);
        const run = new Run(redis, new Client(redis, { namespace: "groups", timeoutMs: 60_000 }), "groups");
        for (const [i, step] of scenario.steps.entries()) await run.carryOut(step, `step ${i + 1} (${step.op})`);
        run.client.close();
      });
    }
  });
}

for (const [server, program] of [["redis", undefined], ["valkey", valkeyServer()]] as const) {
  describe(`of a master and a replica of ${server}`, { skip: server === "valkey" && !program }, () => {
    let group: RedisGroup;
    let redis: Redis;
    let hasWaitaof: boolean;
    before(async () => {
      group = await RedisGroup.start("replica", ...(program ? [program] : []));
      redis = connect(group.url) as Redis;
      const [, major, minor] = /redis_version:(\d+)\.(\d+)/.exec(await redis.info("server"))!.map(Number);
      hasWaitaof = major! > 7 || (major === 7 && minor! >= 2);
    });
    after(async () => {
      redis.disconnect();
      await group.stop();
    });
    for (const [number, scenario] of vectors("durability.json").scenarios.entries()) {
      test(scenario.name, async (t) => {
        if ((scenario.has_waitaof ?? hasWaitaof) !== hasWaitaof) return t.skip("for other servers");
        const namespace = `d${number}`;
        await init(redis, namespace, scenario.shards ?? 1);
        const thaw = new Client(redis, { namespace, timeoutMs: 60_000 });
        const freeze = new Client(redis, { namespace, timeoutMs: 60_000, confirmTimeoutMs: 200 });
        const run = new Run(redis, thaw, namespace, { group, freeze, thaw });
        for (const [i, step] of scenario.steps.entries()) await run.carryOut(step, `step ${i + 1} (${step.op})`);
        for (const client of [freeze, thaw]) client.close();
      });
    }

    test("a frozen replica holds up only those who wait for it", async () => {
      await init(redis, "held", 1);
      const client = new Client(redis, { namespace: "held", timeoutMs: 600_000 });
      const policy = await client.topic("orders").setPolicy({ durability: "replica:1" });
      assert.equal(policy.durability, "replica:1");
      await client.put({ topic: "orders", payload: "x" });
      await group.does("freeze", "");
      let isOver = false;
      const waiting = client.put({ topic: "orders", payload: "x", afterMs: 3_600_000 }).finally(() => (isOver = true));
      while (!String(await redis.client("LIST")).includes("cmd=wait "));
      await client.put({ topic: "mails", payload: "x" });
      assert.ok(!isOver);
      await group.does("thaw", "");
      assert.equal((await waiting).word, "stored");
      client.close();
    });
  });
}

/** A scenario on several Redises: a command outside the client goes to the Redis of the shard. */
class OfNodes extends Run {
  constructor(private readonly nodes: readonly RedisNode[], client: Client, namespace: string) {
    super(nodes[0]!.redis as Redis, client, namespace);
  }

  private node(shard: number): RedisNode {
    return this.nodes[[1, 3].includes(shard) ? 1 : 0]!;
  }

  override async step(step: any): Promise<any> {
    if (step.op === "listening") {
      const listening = () => this.node(step.shard).redis.call("PUBSUB", "SHARDNUMSUB", `{${this.namespace}:${step.shard}}:ready`);
      while (((await listening()) as number[])[1] === 0);
      return undefined;
    }
    if (step.op !== "redis") return super.step(step);
    const [command, ...args] = step.args.map((arg: string) => arg.replace("NAMESPACE", this.namespace)) as [string, ...string[]];
    const shard = /:(\d+)}/.exec(args[0]!);
    if (!shard) return Promise.all(this.nodes.map(({ redis }) => redis.call(command, ...args)));
    const node = this.node(Number(shard[1]));
    if (args[1] === "layout") args[2] += `@${node.name}`;
    return node.redis.call(command, ...args);
  }

  override async script(verb: string, shard: number | string, layout: number, args: any[]): Promise<any> {
    const node = this.node(Number(shard));
    const bytes = args.map((arg) => (arg.hex === undefined ? arg : Buffer.from(arg.hex, "hex")));
    const reply = await call(node.redis, this.namespace, verb, Number(shard), `${layout}@${node.name}`, bytes);
    if (verb === "layout") reply[0] = String(reply[0]).split("@")[0];
    return Array.isArray(reply) ? reply : [reply];
  }
}

describe("of two Redises", () => {
  let servers: Server[];
  let nodes: RedisNode[];
  before(async () => {
    servers = [await Server.start(), await Server.start()];
    nodes = [
      { name: "a", redis: servers[0]!.connect(), shards: "0,2,4-4095" },
      { name: "b", redis: servers[1]!.connect(), shards: "1,3" },
    ];
  });
  after(async () => {
    for (const { redis } of nodes) redis.disconnect();
    for (const server of servers) await server.stop();
  });
  for (const [number, scenario] of vectors("conformance.json").scenarios.entries()) {
    test(scenario.name, async () => {
      const namespace = `s${number}`;
      const run = new OfNodes(nodes, new Client(nodes, { namespace }), namespace);
      for (let shard = 0; scenario.init !== false && shard < (scenario.shards ?? 1); shard++) {
        await run.script("init", shard, 1, [shard, scenario.shards ?? 1]);
      }
      for (const [i, step] of scenario.steps.entries()) await run.carryOut(step, `step ${i + 1} (${step.op})`);
      run.client.close();
    });
  }
});
