/** Helpers for tests: a deployment for one test, what is pending in it, and deliveries without waiting. */

import { randomBytes } from "node:crypto";
import type { Redis } from "ioredis";
import { optionsOf, shown, wholeOf } from "./arguments.js";
import { Client } from "./client.js";
import { connect, end } from "./connections.js";
import { drain, pump, type Drained, type DrainOptions } from "./draining.js";
import { InvalidMessage } from "./names.js";
import { keyOf, MAX_SHARDS, META } from "./protocol.js";
import { script } from "./scripts.js";
import type { Handler } from "./worker.js";

export { NotDrained, type Drained, type DrainOptions } from "./draining.js";

/** A message that waits for its due time, or for a worker. */
export type Pending = { id: string; dueMs: number; payload: Buffer; group: string | undefined; headers: [string, string][] };

/** Keys that a step of a removal visits. */
const KEYS_A_STEP = 10_000;

/** This Redis would not let a deployment be removed whole, so none was created. */
export class NotRemovable extends Error {
  override name = "NotRemovable";
}

/**
 * Creates a deployment in a namespace of its own; `remove` removes all of its keys. `redis` is one Redis, or its URL; nothing else
 * in it is touched, though a removal walks through all of its keys. Rejects with `NotRemovable` where that is refused.
 */
export async function isolated(redis: string | Redis, options: { shards?: number } = {}): Promise<Deployment> {
  const { shards = 1 } = optionsOf("isolated's options", options, "shards");
  wholeOf("shards", shards, 1, MAX_SHARDS);
  const given = typeof redis === "string" ? connect(redis) : redis;
  const isOwn = given !== redis;
  if (typeof given?.scanBuffer !== "function" || given.isCluster) {
    if (isOwn) end(given);
    throw new InvalidMessage(`redis is one Redis, whose keys can be removed at once, or its URL, not ${shown(redis)}`);
  }
  const deployment = new Deployment(given as Redis, isOwn, shards);
  try {
    await deployment.create();
  } catch (fault) {
    deployment.close();
    throw fault;
  }
  return deployment;
}

/** A deployment without a timer, for one test: its messages become due by `promoteAll` and `drain`. */
export class Deployment {
  readonly namespace = `test-${randomBytes(8).toString("hex")}`;
  /** For the program under test. */
  readonly client: Client;
  private readonly metas: string[];

  /** @internal */
  constructor(private readonly redis: Redis, private readonly isOwn: boolean, private readonly shards: number) {
    this.client = new Client(redis, { namespace: this.namespace });
    this.metas = Array.from({ length: shards }, (_, shard) => keyOf(this.namespace, shard, META));
  }

  /** Returns the delayed and ready messages of a topic in the order of due times. */
  async pending(topic: string): Promise<Pending[]> {
    const found: Pending[] = [];
    for (const state of ["delayed", "ready"] as const) {
      for await (const { id, dueMs, payload, group, headers } of this.client.topic(topic).list(state)) {
        found.push({ id, dueMs, payload, group, headers });
      }
    }
    return found.sort((one, other) => one.dueMs - other.dueMs);
  }

  /** Makes all delayed messages of a topic ready now. Returns the number. */
  async promoteAll(topic: string): Promise<number> {
    const promoted = this.client.topic(topic);
    const before = await promoted.count();
    await pump(this.client);
    await promoted.promote();
    return before.delayed - (await promoted.count()).delayed;
  }

  /**
   * Delivers messages to a handler, as a worker does: what is ready, and then one by one what is due first, until nothing of the
   * topics is delayed, ready or leased. Attempts after a back-off and messages that the handler puts are included. Returns every
   * delivery. Rejects with `NotDrained` after `maxDeliveries` (1,000), or if a message cannot be delivered.
   */
  async drain(topics: string | readonly string[], handler: Handler, options: DrainOptions = {}): Promise<Drained[]> {
    return drain(this.client, topics, handler, options);
  }

  /** Removes all keys of the deployment, and closes its client. Without their `meta`, scripts write nothing more. */
  async remove(): Promise<void> {
    this.client.close();
    try {
      await this.redis.unlink(...this.metas);
      let cursor = "0";
      do {
        const [next, keys]: [Buffer, Buffer[]] = await this.redis.scanBuffer(cursor, "MATCH", `{${this.namespace}:*`, "COUNT", KEYS_A_STEP);
        if (keys.length > 0) await this.redis.unlink(...keys);
        cursor = String(next);
      } while (cursor !== "0");
    } finally {
      this.close();
    }
  }

  /** Creates the shards, once a removal is known to be allowed. @internal */
  async create(): Promise<void> {
    try {
      await this.redis.scan(0, "MATCH", this.metas[0]!, "COUNT", 1);
      await this.redis.unlink(...this.metas);
    } catch (fault) {
      if ((fault as Error).name !== "ReplyError") throw fault;
      const why = `this Redis would not let a test remove its deployment, so none was created: ${(fault as Error).message}`;
      throw new NotRemovable(why, { cause: fault });
    }
    for (const [shard, meta] of this.metas.entries()) {
      await this.redis.eval(script("init"), 2, meta, meta.replace("meta", "never"), 1, shard, this.shards);
    }
  }

  /** @internal */
  close(): void {
    this.client.close();
    if (this.isOwn) end(this.redis);
  }
}
