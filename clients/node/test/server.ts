/** Private servers for the tests, in temporary folders; and the shared vectors. */

import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createConnection, createServer, type AddressInfo, type Server as NetServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { fileURLToPath } from "node:url";
import { Cluster, Redis } from "ioredis";
import { script } from "../src/scripts.js";

export const REPOSITORY = fileURLToPath(new URL("../../../..", import.meta.url));

export function vectors(name: string): any {
  return JSON.parse(readFileSync(`${REPOSITORY}/tests/vectors/${name}`, "utf8"));
}

/** A redis-server on a unix socket, which keeps what it has over a restart. */
export class Server {
  readonly folder = mkdtempSync(`${tmpdir()}/delayq-node-`);
  readonly socket = `${this.folder}/s`;
  private process!: ChildProcess;
  private timer?: ChildProcess;

  /** Starts it, and waits until it answers. */
  static async start(): Promise<Server> {
    const server = new Server();
    await server.restart();
    return server;
  }

  async restart(): Promise<void> {
    const settings = ["--port", "0", "--unixsocket", this.socket, "--dir", this.folder, "--save", "", "--appendonly", "yes"];
    this.process = spawn("redis-server", [...settings, "--appendfsync", "no"], { stdio: "ignore" });
    const probe = this.connect();
    await probe.ping();
    probe.disconnect();
  }

  connect(): Redis {
    const redis = new Redis({ path: this.socket, retryStrategy: () => 20, maxRetriesPerRequest: 500 });
    redis.on("error", () => undefined);
    return redis;
  }

  signal(signal: NodeJS.Signals): void {
    this.process.kill(signal);
  }

  async kill(): Promise<void> {
    await killed(this.process);
  }

  /** A real timer, which makes messages ready at their time. */
  startTimer(namespace: string, shards: number): void {
    const config = `${this.folder}/timer.toml`;
    const sections = `[deployment]\nnamespace = "${namespace}"\nshards = ${shards}\n[redis]\nurl = "unix://${this.socket}"\n`;
    writeFileSync(config, `${sections}[etcd]\nenabled = false\n[admin]\nlisten = "127.0.0.1:0"\n`);
    this.timer = spawn(process.env["DELAYQ_TIMER"] ?? `${REPOSITORY}/target/debug/delayq-timer`, [config], { stdio: "ignore" });
  }

  async stop(): Promise<void> {
    if (this.timer) await killed(this.timer);
    await this.kill();
    rmSync(this.folder, { recursive: true });
  }
}

/** Stands between a client and a server, and can fall silent: what is connected then gets no answer, and no end. */
export class Proxy {
  private readonly pairs: [Socket, Socket][] = [];

  private constructor(readonly socket: string, private readonly listener: NetServer) {}

  static async start(to: string): Promise<Proxy> {
    const listener = createServer((client) => {
      const pair: [Socket, Socket] = [client, createConnection(to)];
      proxy.pairs.push(pair);
      pair.forEach((one, n) => one.on("error", () => undefined).pipe(pair[1 - n]!));
    });
    const proxy = new Proxy(`${to}-proxy`, listener);
    listener.listen(proxy.socket);
    await once(listener, "listening");
    return proxy;
  }

  silence(): void {
    for (const pair of this.pairs) pair.forEach((one) => one.unpipe().pause());
  }

  async stop(): Promise<void> {
    for (const pair of this.pairs) pair.forEach((one) => one.destroy());
    this.listener.close();
    await once(this.listener, "close");
  }
}

async function killed(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  child.kill("SIGKILL");
  await ended;
}

/** Servers on free ports of the loopback address. */
export class Fleet {
  private readonly folder = mkdtempSync(`${tmpdir()}/delayq-fleet-`);
  private readonly processes: ChildProcess[] = [];

  /** A Redis Cluster of three masters. */
  async cluster(): Promise<Cluster> {
    const ports = await Promise.all([1, 2, 3].map(() => this.start(["--cluster-enabled", "yes"])));
    const nodes = ports.map((port) => new Redis(port, { maxRetriesPerRequest: 500, retryStrategy: () => 20 }));
    for (const [i, node] of nodes.entries()) {
      await node.call("CLUSTER", "ADDSLOTSRANGE", [0, 5461, 10923][i]!, [5460, 10922, 16383][i]!);
      await nodes[0]!.call("CLUSTER", "MEET", "127.0.0.1", ports[i]!, await busPort(node));
    }
    const agreed = async () => (await Promise.all(nodes.map((node) => node.cluster("SLOTS")))).every((slots) => slots.length === 3);
    const isOk = async () => (await nodes[0]!.cluster("INFO")).includes("cluster_state:ok");
    while (!((await agreed()) && (await isOk())));
    nodes.forEach((node) => node.disconnect());
    return new Cluster([{ host: "127.0.0.1", port: ports[0]! }]);
  }

  /** A master with a replica and a Sentinel that watches them; the connection goes by the Sentinel. */
  async sentinel(): Promise<{ redis: Redis; killMaster: () => Promise<void> }> {
    const master = await this.start([]);
    const replica = await this.start(["--replicaof", `127.0.0.1 ${master}`]);
    const config = `${this.folder}/sentinel.conf`;
    writeFileSync(config, `sentinel monitor m 127.0.0.1 ${master} 1\nsentinel down-after-milliseconds m 300\n`);
    const sentinel = await this.start(["--sentinel"], config);
    const probe = new Redis(sentinel);
    while (!String(await probe.call("SENTINEL", "REPLICAS", "m")).includes(`127.0.0.1:${replica}`));
    probe.disconnect();
    const follower = new Redis(replica);
    while (!(await follower.info("replication")).includes("master_link_status:up"));
    follower.disconnect();
    const redis = new Redis({ sentinels: [{ host: "127.0.0.1", port: sentinel }], name: "m" });
    redis.on("error", () => undefined);
    return { redis, killMaster: () => killed(this.processes[0]!) };
  }

  async stop(): Promise<void> {
    await Promise.all(this.processes.map(killed));
    rmSync(this.folder, { recursive: true });
  }

  private async start(settings: string[], config?: string): Promise<number> {
    const port = await freePort();
    const own = ["--port", String(port), "--bind", "127.0.0.1", "--dir", this.folder, "--save", ""];
    const names = ["--dbfilename", `${port}.rdb`, "--cluster-config-file", `${port}.conf`, "--cluster-port", String(await freePort())];
    const args = [...(config ? [config] : []), ...own, ...(config ? [] : names), ...settings];
    this.processes.push(spawn("redis-server", args, { stdio: "ignore" }));
    const probe = new Redis(port, { retryStrategy: () => 20, maxRetriesPerRequest: 500 });
    probe.on("error", () => undefined);
    await probe.ping();
    probe.disconnect();
    return port;
  }
}

async function busPort(node: Redis): Promise<number> {
  const [, port] = (await node.config("GET", "cluster-port")) as string[];
  return Number(port);
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const { port } = probe.address() as AddressInfo;
  probe.close();
  await once(probe, "close");
  return port;
}

/** A published script itself, for verbs that no client has. */
export async function call(
  redis: Redis | Cluster,
  namespace: string,
  verb: string,
  shard: number,
  layout: number,
  args: (string | number | Buffer)[],
): Promise<any> {
  const base = `{${namespace}:${shard}}:`;
  return redis.callBuffer("EVAL", [script(verb), 2, `${base}meta`, `${base}never`, layout, ...args]);
}

/** Creates a deployment. */
export async function init(redis: Redis | Cluster, namespace: string, shards: number): Promise<void> {
  for (let shard = 0; shard < shards; shard++) {
    assert.equal(String(await call(redis, namespace, "init", shard, 1, [shard, shards])), "created");
  }
}

/** What some calls make Redis carry out, by the names of the commands; those within scripts are left out. */
export async function commandsDuring(redis: Redis, work: () => Promise<unknown>): Promise<string[]> {
  const seen: string[] = [];
  const monitor = await redis.monitor();
  monitor.on("monitor", (_time: string, args: string[], source: string) => source !== "lua" && seen.push(args[0]!.toLowerCase()));
  await work();
  // Whatever the work sent is in front of this.
  const end = `end-${Math.random()}`;
  const ended = new Promise<void>((resolve) => monitor.on("monitor", (_time: string, args: string[]) => args[1] === end && resolve()));
  await redis.echo(end);
  await ended;
  monitor.disconnect();
  return seen.filter((command) => command !== "echo");
}
