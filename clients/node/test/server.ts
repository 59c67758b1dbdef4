/** Private servers for the tests, in temporary folders; and the shared vectors. */

import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createConnection, createServer, type Server as NetServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { Redis, type Cluster } from "ioredis";
import { script } from "../src/scripts.js";

export const REPOSITORY = fileURLToPath(new URL("../../../..", import.meta.url));

export function vectors(name: string): any {
  return JSON.parse(readFileSync(`${REPOSITORY}/tests/vectors/${name}`, "utf8"));
}

/** A redis-server on a unix socket, whose data survives a restart. */
export class Server {
  readonly folder = mkdtempSync(`${tmpdir()}/delayq-node-`);
  readonly socket = `${this.folder}/s`;
  private process!: ChildProcess;
  private timer?: ChildProcess;

  /** Starts the server, and waits for an answer. */
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

  /** A real timer, which makes due messages ready. The returned function ends the timer. */
  startTimer(namespace: string, shards: number): () => Promise<void> {
    const config = `${this.folder}/timer.toml`;
    const sections = `[deployment]\nnamespace = "${namespace}"\nshards = ${shards}\n[redis]\nurl = "unix://${this.socket}"\n`;
    writeFileSync(config, `${sections}[etcd]\nenabled = false\n[admin]\nlisten = "127.0.0.1:0"\n`);
    this.timer = spawn(process.env["DELAYQ_TIMER"] ?? `${REPOSITORY}/target/debug/delayq-timer`, [config], { stdio: "ignore" });
    const timer = this.timer;
    return async () => {
      const ended = once(timer, "exit");
      timer.kill("SIGTERM");
      await ended;
    };
  }

  async stop(): Promise<void> {
    if (this.timer) await killed(this.timer);
    await this.kill();
    rmSync(this.folder, { recursive: true });
  }
}

/** Stands between a client and a server, and can be late with each answer, or fall silent: then none comes, and no end. */
export class Proxy {
  private readonly pairs: [Socket, Socket][] = [];

  private constructor(readonly socket: string, private readonly listener: NetServer) {}

  static async start(to: string, lateMs = 0): Promise<Proxy> {
    const listener = createServer((client) => {
      const pair: [Socket, Socket] = [client, createConnection(to)];
      proxy.pairs.push(pair);
      pair.forEach((one) => one.on("error", () => undefined));
      client.pipe(pair[1]);
      if (lateMs === 0) pair[1].pipe(client);
      else pair[1].on("data", (answer) => setTimeout(() => client.write(answer), lateMs));
    });
    const proxy = new Proxy(`${to}-proxy`, listener);
    listener.listen(proxy.socket);
    await once(listener, "listening");
    return proxy;
  }

  /** Number of connections accepted so far. */
  get taken(): number {
    return this.pairs.length;
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

/** A server with WAITAOF: the path in DELAYQ_TEST_VALKEY, or else the `valkey-server` on the PATH, if any. */
export function valkeyServer(): string | undefined {
  const onPath = (process.env["PATH"] ?? "").split(":").map((folder) => `${folder}/valkey-server`).find((path) => existsSync(path));
  return process.env["DELAYQ_TEST_VALKEY"] || onPath;
}

/**
 * A master with replicas and sentinels, the nodes of a cluster, or a master with a replica, of redis-server or of another
 * program (tests/src/bin/redis-group.rs).
 */
export class RedisGroup {
  private constructor(private readonly process: ChildProcess, private readonly lines: AsyncIterator<string>, readonly url: string) {}

  static async start(...kind: string[]): Promise<RedisGroup> {
    const program = process.env["DELAYQ_REDIS_GROUP"] ?? `${REPOSITORY}/target/debug/redis-group`;
    const servers = spawn(program, kind, { stdio: ["pipe", "pipe", "inherit"] });
    const lines = createInterface(servers.stdout)[Symbol.asyncIterator]();
    return new RedisGroup(servers, lines, (await lines.next()).value);
  }

  /** Has something done to the master that has a key, or to the replica: `kill`, `freeze`, `thaw`, `move`. */
  async does(what: string, key: string): Promise<void> {
    this.process.stdin!.write(`${what} ${key}\n`);
    assert.equal((await this.lines.next()).value, "done");
  }

  /** Closing the input ends the group. */
  async stop(): Promise<void> {
    const ended = once(this.process, "exit");
    this.process.stdin!.end();
    await ended;
  }
}

/** A published script itself, for verbs that no client has. */
export async function call(
  redis: Redis | Cluster,
  namespace: string,
  verb: string,
  shard: number,
  layout: number | string,
  args: (string | number | Buffer)[],
): Promise<any> {
  const base = `{${namespace}:${shard}}:`;
  return redis.callBuffer("EVAL", [script(verb), 2, `${base}meta`, `${base}never`, layout, ...args]);
}

/** Gives the stored message of a shard's first topic the flags and fields of another envelope, which no put accepts. */
export async function plant(redis: Redis, namespace: string, id: Buffer, envelope: Buffer): Promise<void> {
  const key = Buffer.concat([Buffer.from(`{${namespace}:0}:m:1:`), id]);
  const head = (await redis.getBuffer(key))!.subarray(0, 32);
  await redis.set(key, Buffer.concat([head.subarray(0, 2), envelope.subarray(2, 4), head.subarray(4), envelope.subarray(32)]));
}

/** Creates a deployment. */
export async function init(redis: Redis | Cluster, namespace: string, shards: number): Promise<void> {
  for (let shard = 0; shard < shards; shard++) {
    assert.equal(String(await call(redis, namespace, "init", shard, 1, [shard, shards])), "created");
  }
}

/** Names of the commands that Redis runs during some calls, without commands of scripts. */
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
