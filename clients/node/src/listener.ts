/** Listens for queues that become ready: one connection per client, or per node of a cluster. */

import type { Redis } from "ioredis";
import {
  connectionFor, inHalves, inTime, PATIENCE_MS, reconnectMs, relearn, shardOf, silence, type Place,
} from "./connections.js";
import { keyOf, READY, WAKE, WORKERS } from "./protocol.js";
import { Several } from "./several.js";

/** Reports a shard: a queue that may be ready, of one topic or, with "", of all topics; or a due time. */
export type Notify = (shard: number, topic: string) => void;

/** `counted` has the topics that the connection is counted for as a worker. */
type Ear = { connection: Redis; shards: number[]; pings: NodeJS.Timeout; counted: Set<string> };

export class Listener {
  /** Pause between pings. */
  static pingMs = 2_000;
  /** Pause between checks for moved shards, since nodes may not report a move. */
  static checkMs = 1_000;

  private readonly ears = new Map<Redis, Ear>();
  /** Called with the reports of due times. */
  readonly followers = new Set<Notify>();
  private isClosed = false;
  private failures = 0;
  private planned?: NodeJS.Timeout;
  private readonly checks?: NodeJS.Timeout;

  /** `redis` is the connection for calls, whose nodes are listened to. */
  constructor(
    private readonly redis: Place,
    private readonly namespace: string,
    private shards: number,
    private readonly notify: Notify,
    /** The topics that callers wait for. */
    private readonly topics: () => Iterable<string>,
    /** Replaces a connection for calls that is silent, too. */
    private readonly replace: (node: Redis) => void,
  ) {
    this.spread();
    if (redis.isCluster || redis instanceof Several) this.checks = setInterval(() => this.spread(), Listener.checkMs);
  }

  grow(shards: number): void {
    if (shards <= this.shards) return;
    this.shards = shards;
    this.spread();
  }

  /** Listens again, if this is the first follower. */
  follow(follower: Notify): void {
    const isFirst = this.followers.size === 0;
    this.followers.add(follower);
    if (!isFirst) return;
    for (const node of [...this.ears.keys()]) this.drop(node);
    this.spread();
  }

  close(): void {
    this.isClosed = true;
    clearTimeout(this.planned);
    clearInterval(this.checks);
    for (const node of [...this.ears.keys()]) this.drop(node);
  }

  /** Listens to each shard at the present node, and drops connections with a changed set of shards. */
  private spread(): void {
    const parts = new Map<Redis, number[]>();
    for (let shard = 0; shard < this.shards; shard++) {
      const node = connectionFor(this.redis, this.channel(shard));
      if (node) parts.set(node, [...(parts.get(node) ?? []), shard]);
      else if (!(this.redis instanceof Several)) this.plan();
    }
    for (const [node, { shards }] of this.ears) {
      if (String(parts.get(node)) !== String(shards)) this.drop(node);
    }
    for (const [node, shards] of parts) {
      if (!this.ears.has(node)) this.listen(node, shards);
    }
  }

  /** Connects to a node. Any error replaces the connection, including unsolicited errors such as a moved slot. */
  private listen(node: Redis, shards: number[]): void {
    const always = { stringNumbers: false, enableAutoPipelining: false, lazyConnect: false, autoResubscribe: false, enableOfflineQueue: true, maxRetriesPerRequest: 0 };
    const connection = inTime(node.duplicate({ ...always, retryStrategy: () => null }));
    const pings = setInterval(() => void this.ping(node, ear), Listener.pingMs);
    const ear: Ear = { connection, shards, pings, counted: new Set() };
    this.ears.set(node, ear);
    const lost = (): void => {
      if (this.ears.get(node) !== ear) return;
      this.drop(node);
      this.plan();
    };
    connection.on("error", lost);
    connection.on("end", lost);
    connection.on("moved", lost); // what ioredis 6 says of a slot that is gone
    connection.on("smessage", (channel: string, text: string) => {
      if (channel.endsWith(`:${WAKE}`)) this.wake(shardOf(channel), text);
      else this.notify(shardOf(channel), text);
    });
    connection.once("ready", () => this.subscribe(ear).catch(lost));
  }

  /** Subscribes, and reports every shard once: earlier notifications are lost. */
  private async subscribe({ connection, shards }: Ear): Promise<void> {
    const kinds = this.followers.size > 0 ? [READY, WAKE] : [READY];
    const channels = shards.flatMap((shard) => kinds.map((kind) => this.channel(shard, kind)));
    // A cluster refuses channels of several slots in one command.
    if (this.redis.isCluster) await Promise.all(channels.map((channel) => connection.ssubscribe(channel)));
    else await connection.ssubscribe(...channels);
    this.failures = 0;
    this.count();
    for (const shard of shards) this.notify(shard, "");
    for (const shard of shards) this.wake(shard, "0");
  }

  private wake(shard: number, report: string): void {
    for (const follower of this.followers) follower(shard, report);
  }

  /** Subscribes to the channels that count the workers of each topic. Without them, messages come all the same. */
  count(): void {
    const ear = [...this.ears.values()].find(({ connection, shards }) => shards.includes(0) && connection.status === "ready");
    const joined = [...new Set(this.topics())].filter((topic) => !ear?.counted.has(topic));
    if (!ear || joined.length === 0) return;
    for (const topic of joined) ear.counted.add(topic);
    ear.connection.ssubscribe(...joined.map((topic) => keyOf(this.namespace, 0, WORKERS + topic))).catch(() => undefined);
  }

  /** Listens again after a growing pause, with the updated slot map. */
  private plan(): void {
    if (this.isClosed || this.planned) return;
    this.planned = setTimeout(async () => {
      await relearn(this.redis);
      this.planned = undefined;
      if (!this.isClosed) this.spread();
    }, reconnectMs(++this.failures));
  }

  private drop(node: Redis): void {
    const { connection, pings } = this.ears.get(node)!;
    this.ears.delete(node);
    clearInterval(pings);
    connection.disconnect();
  }

  /** Replaces a dead connection, and the connection for calls if silent, too; a call that has only begun is waited for. */
  private async ping(node: Redis, { connection }: Ear): Promise<void> {
    if (connection.status !== "ready") return;
    const nodeSince = silence(node);
    const sent = node.stream?.bytesWritten;
    const cancel = inHalves(Math.min(PATIENCE_MS, Listener.pingMs / 2), () => silence(connection), (since) => {
      if (!since()) return;
      connection.stream.destroy(); // an orderly end would be waited for
      if (nodeSince() && node.stream.bytesWritten === sent) this.replace(node);
    });
    await connection.ping().catch(() => undefined);
    cancel();
  }

  private channel(shard: number, kind: string = READY): string {
    return keyOf(this.namespace, shard, kind);
  }
}
