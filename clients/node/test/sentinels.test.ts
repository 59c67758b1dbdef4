/** The master that sentinels elect: sentinels that are silent, foreign, or name another master. */

import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { afterEach, beforeEach, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { Client, connect } from "../src/index.js";
import { call, init, RedisGroup } from "./server.js";

const SHARDS = 4;
const IDENTITIES = ["0a".repeat(16), "0b".repeat(16)] as const;

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const { port } = probe.address() as AddressInfo;
  probe.close();
  await once(probe, "close");
  return port;
}

/** A redis-server on a port, or a sentinel if `watches` is given: the port of a Redis, and the epoch of the configuration. */
class PortServer {
  private readonly folder = mkdtempSync(`${tmpdir()}/delayq-node-`);
  private process!: ChildProcess;
  connection!: Redis;

  private constructor(readonly port: number) {}

  static async start(watches?: { master: number; epoch?: number }): Promise<PortServer> {
    const server = new PortServer(await freePort());
    const lines = [`port ${server.port}`, "bind 127.0.0.1", `dir ${server.folder}`, ...(watches ? [] : ['save ""'])];
    if (watches) lines.push(`sentinel monitor mymaster 127.0.0.1 ${watches.master} 1`, `sentinel config-epoch mymaster ${watches.epoch ?? 0}`);
    writeFileSync(`${server.folder}/conf`, `${lines.join("\n")}\n`);
    server.process = spawn("redis-server", [`${server.folder}/conf`, ...(watches ? ["--sentinel"] : [])], { stdio: "ignore" });
    server.connection = new Redis(server.port, "127.0.0.1", { retryStrategy: () => 20, maxRetriesPerRequest: 500 });
    server.connection.on("error", () => undefined);
    await server.connection.ping();
    return server;
  }

  get address(): string {
    return `127.0.0.1:${this.port}`;
  }

  /** Has a sentinel watch another Redis under the same name. */
  async watch(port: number): Promise<void> {
    await this.connection.call("SENTINEL", "REMOVE", "mymaster");
    await this.connection.call("SENTINEL", "MONITOR", "mymaster", "127.0.0.1", port, 1);
  }

  signal(signal: NodeJS.Signals): void {
    this.process.kill(signal);
  }

  async stop(): Promise<void> {
    this.connection.disconnect();
    if (this.process.exitCode === null && this.process.signalCode === null) {
      const ended = once(this.process, "exit");
      this.process.kill("SIGKILL");
      await ended;
    }
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** Two Redises, each with a deployment of the same name, and three sentinels that name the first. */
let first: PortServer;
let second: PortServer;
let sentinels: PortServer[];
let clients: Client[];

beforeEach(async () => {
  [first, second] = await Promise.all([PortServer.start(), PortServer.start()]);
  for (const [n, { connection }] of [first, second].entries()) {
    await init(connection, "fleet", SHARDS);
    for (let shard = 0; shard < SHARDS; shard++) await call(connection, "fleet", "identify", shard, 1, [IDENTITIES[n]!]);
  }
  sentinels = await Promise.all([1, 2, 3].map(() => PortServer.start({ master: first.port })));
  clients = [];
});

afterEach(async () => {
  for (const client of clients) client.close();
  await Promise.all([first, second, ...sentinels].map((server) => server.stop()));
});

function clientOf(url = `redis+sentinel://${sentinels.map(({ address }) => address).join(",")}/mymaster`, namespace = "fleet"): Client {
  const client = new Client(url, { namespace });
  clients.push(client);
  return client;
}

const put = (client: Client, id: string) => client.put({ topic: "orders", id, payload: "x" });

async function putAll(client: Client, name: string, count = SHARDS): Promise<void> {
  for (let n = 0; n < count; n++) {
    for (let stored = false; !stored; await sleep(5)) stored = await put(client, `${name}-${n}`).then(({ accepted }) => accepted, () => false);
  }
}

/** Puts until the error contains each text. */
async function refused(client: Client, ...texts: string[]): Promise<void> {
  let message = "";
  for (const endMs = Date.now() + 20_000; Date.now() < endMs; await sleep(5)) {
    message = await put(client, `refused-${Math.random()}`).then(() => "", (fault) => fault.message);
    if (texts.every((text) => message.includes(text))) return;
  }
  assert.fail(`${message || "the puts were taken"}; expected ${texts}`);
}

/** Ends the connections to a Redis. */
const drop = (redis: Redis) => redis.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");

const isUntouched = async () => assert.deepEqual(await second.connection.keys("*:m:*"), []);

const limited = { timeout: 60_000 };

test("one foreign sentinel with a higher epoch overrules nobody, and a failover goes on without it", limited, async () => {
  const group = await RedisGroup.start("sentinel");
  const foreign = await PortServer.start({ master: second.port, epoch: 9 });
  const two = /\/\/(.*?),(.*?),/.exec(group.url)!;
  const url = `redis+sentinel://${foreign.address},${two[1]},${two[2]}/mymaster`;
  const operator = connect(group.url) as Redis;
  operator.on("error", () => undefined);
  await init(operator, "fleet", SHARDS);
  const client = clientOf(url);
  await putAll(client, "before");
  await drop(operator);
  await putAll(client, "again");
  let isOver = false;
  const killed = group.does("kill", "{fleet:0}:meta").finally(() => (isOver = true));
  for (let n = 0; !isOver; n++) await putAll(client, `meanwhile-${n}`, 1);
  await killed;
  await putAll(client, "after");
  await isUntouched();
  operator.disconnect();
  await foreign.stop();
  await group.stop();
});

test("a master of another deployment is not followed even if most sentinels name it", limited, async () => {
  const client = clientOf();
  await putAll(client, "before");
  for (const one of sentinels.slice(1)) await one.watch(second.port);
  await refused(client, `cannot reach Redis at ${second.address}, the master of mymaster: the sentinels name this Redis, but it keeps deployment 0b0b0b0b instead of 0a0a0a0a: correct`);
  for (const one of sentinels.slice(1)) await one.watch(first.port);
  await putAll(client, "after");
  await isUntouched();
});

test("a node of another deployment is not followed even if most sentinels name it", limited, async () => {
  for (let shard = 0; shard < SHARDS; shard++) await first.connection.hset(`{fleet:${shard}}:meta`, "layout", "1@a");
  const given = connect(`redis+sentinel://${sentinels.map(({ address }) => address).join(",")}/mymaster`);
  const other = new Redis(second.port, "127.0.0.1", { lazyConnect: true });
  const client = new Client([{ name: "a", redis: given, shards: `0-${SHARDS - 1}` }, { name: "b", redis: other, shards: "" }], { namespace: "fleet" });
  await putAll(client, "before");
  for (const one of sentinels.slice(1)) await one.watch(second.port);
  await refused(client, "it keeps deployment 0b0b0b0b instead of 0a0a0a0a");
  await isUntouched();
  client.close();
  for (const one of [given, other]) one.disconnect();
});

test("a deployment that was created again at the same master is followed", limited, async () => {
  const client = clientOf();
  await putAll(client, "before");
  for (let shard = 0; shard < SHARDS; shard++) await first.connection.hset(`{fleet:${shard}}:meta`, "identity", IDENTITIES[1]);
  await drop(first.connection);
  await putAll(client, "after");
});

test("a replica that the sentinels name is not written to", limited, async () => {
  await first.connection.replicaof("127.0.0.1", second.port);
  await refused(clientOf(), "the sentinels name this Redis, but it is a replica");
  await isUntouched();
});

test("each sentinel is named with its answer when most do not name one master", limited, async () => {
  const client = clientOf();
  await sentinels[1]!.watch(second.port);
  await sentinels[2]!.stop();
  const [one, other, gone] = sentinels.map(({ address }) => `sentinel ${address}`);
  await refused(
    client, "cannot reach Redis: the sentinels do not agree on the master of mymaster: ", `${one} names ${first.address} by epoch 0; `,
    `${other} names ${second.address} by epoch 0; `, `${gone}: connect ECONNREFUSED`,
  );
  await sentinels[1]!.watch(first.port);
  await putAll(client, "after");
  await isUntouched();
});

test("silent sentinels are named when no sentinel answers, and a connected client needs none", limited, async () => {
  const client = clientOf();
  await putAll(client, "connected");
  for (const one of sentinels) one.signal("SIGSTOP");
  assert.ok((await put(client, "without")).accepted);
  await drop(first.connection);
  await refused(
    client, "no sentinel names the master of mymaster", ...sentinels.map(({ address }) => `sentinel ${address}: no reply`),
  );
  sentinels[2]!.signal("SIGCONT");
  await putAll(client, "after");
});

test("a client begins and goes on with the one sentinel that answers", limited, async () => {
  for (const one of sentinels.slice(1)) one.signal("SIGSTOP");
  const client = clientOf();
  await putAll(client, "begun");
  await drop(first.connection);
  await putAll(client, "after");
});

test("a service that no sentinel knows is named", limited, async () => {
  await refused(clientOf(`redis+sentinel://${sentinels[0]!.address}/another`), "no sentinel names the master of another", ": no master named another");
});

test("a former master is left although its successor is dead", limited, async () => {
  const client = clientOf();
  await putAll(client, "connected");
  const successor = await freePort();
  for (const one of sentinels.slice(1)) await one.watch(successor);
  await refused(client, `connect ECONNREFUSED 127.0.0.1:${successor}`);
});
