/** Listening for ready queues that stop being empty, over one connection for a whole client. */

import type { Cluster, Redis } from "ioredis";

const reconnectMs = (times: number): number => Math.min(50 * 2 ** times, 2_000);

/** Called for a shard whose ready queue may have something, of this topic or, where it is empty, of any. */
export type Notify = (shard: number, topic: string) => void;

/** Listens to the shards of a deployment, until it or the client's connection is closed. */
export class Listener {
  /** How often the connection is pinged; the answer may take a third of that. */
  static pingMs = 15_000;

  private readonly connection: Redis | Cluster;
  private readonly pings: NodeJS.Timeout;
  private isClosed = false;

  constructor(
    redis: Redis | Cluster,
    private readonly namespace: string,
    private shards: number,
    private readonly notify: Notify,
  ) {
    this.connection = listening(redis);
    this.connection.on("error", () => undefined); // the client's own connection reports what is wrong
    this.connection.on("smessage", (channel: string, topic: string) => notify(Number(/:(\d+)}:ready$/.exec(channel)![1]), topic));
    this.connection.on("ready", () => void this.subscribe(0));
    this.pings = setInterval(() => void this.ping(), Listener.pingMs);
    redis.once("end", () => this.close());
  }

  /** Listens to the shards that a growth has added, too. */
  grow(shards: number): void {
    const known = this.shards;
    if (shards <= known) return;
    this.shards = shards;
    void this.subscribe(known);
  }

  close(): void {
    this.isClosed = true;
    clearInterval(this.pings);
    this.connection.disconnect();
  }

  /**
   * Subscribes to the shards from one on. What they published before is lost, so each counts as notified once. Where this
   * fails, the connection is replaced and subscribes to all.
   */
  private async subscribe(from: number): Promise<void> {
    const channels = Array.from({ length: this.shards - from }, (_, n) => `{${this.namespace}:${from + n}}:ready`);
    try {
      // In a cluster each is on the node of its slot.
      if (this.connection.isCluster) await Promise.all(channels.map((channel) => this.connection.ssubscribe(channel)));
      else await this.connection.ssubscribe(...channels);
      for (let shard = from; shard < this.shards; shard++) this.notify(shard, "");
    } catch {
      if (!this.isClosed) setTimeout(() => this.connection.disconnect(true), reconnectMs(2)).unref();
    }
  }

  /** Replaces a connection that is dead without having been closed. In a cluster, the polls are the net. */
  private async ping(): Promise<void> {
    if (this.connection.isCluster || !["ready", "connect"].includes(this.connection.status)) return;
    const silent = setTimeout(() => this.connection.disconnect(true), Listener.pingMs / 3);
    await this.connection.ping().catch(() => undefined);
    clearTimeout(silent);
  }
}

/** A connection like the client's that always reconnects. */
function listening(redis: Redis | Cluster): Redis | Cluster {
  if (redis.isCluster) return (redis as Cluster).duplicate([], { shardedSubscribers: true, clusterRetryStrategy: reconnectMs });
  const always = { lazyConnect: false, autoResubscribe: false, enableOfflineQueue: true, maxRetriesPerRequest: null };
  return (redis as Redis).duplicate({ ...always, retryStrategy: reconnectMs, sentinelRetryStrategy: reconnectMs });
}
