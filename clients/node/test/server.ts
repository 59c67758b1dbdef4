/** A private redis-server for the tests, on a unix socket in a temporary folder; and the shared vectors. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { fileURLToPath } from "node:url";
import { Redis } from "ioredis";
import { script } from "../src/scripts.js";

export interface Server {
  connect(): Redis;
  stop(): Promise<void>;
}

export function vectors(name: string): any {
  return JSON.parse(readFileSync(fileURLToPath(new URL(`../../../../tests/vectors/${name}`, import.meta.url)), "utf8"));
}

/** Starts a server and waits until it answers. */
export async function startServer(): Promise<Server> {
  const folder = mkdtempSync(`${tmpdir()}/delayq-node-`);
  const socket = `${folder}/s`;
  const settings = ["--port", "0", "--unixsocket", socket, "--dir", folder, "--save", "", "--appendonly", "no"];
  const server = spawn("redis-server", settings, { stdio: "ignore" });
  const connect = () => new Redis({ path: socket, retryStrategy: () => 20, maxRetriesPerRequest: 500 });
  const probe = connect();
  probe.on("error", () => undefined);
  await probe.ping();
  probe.disconnect();
  return {
    connect,
    async stop() {
      const ended = once(server, "exit");
      server.kill("SIGKILL");
      await ended;
      rmSync(folder, { recursive: true });
    },
  };
}

/** A published script itself, for verbs that no client has. */
export async function call(
  redis: Redis,
  namespace: string,
  verb: string,
  shard: number,
  layout: number,
  args: (string | number | Buffer)[],
): Promise<any> {
  const base = `{${namespace}:${shard}}:`;
  return redis.callBuffer("EVAL", [script(verb), 2, `${base}meta`, `${base}never`, layout, ...args]);
}
