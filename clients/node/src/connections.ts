/**
 * The client's connections, with the options of the given connection.
 *
 * Nothing is resent that may have been carried out: ioredis resends commands whose answer is lost, but delayq must mark a
 * resent put as a repeat. Calls that a cluster node refused are retried a few times: at the new node after MOVED, and after ASK
 * and TRYAGAIN, with which both nodes refuse a moving slot.
 */

import { Cluster, Command, Redis } from "ioredis";
import { readAddress } from "./address.js";
import { InvalidMessage } from "./names.js";
import { ClosedError } from "./outcome.js";
import { keyOf, META } from "./protocol.js";
import type { Script } from "./scripts.js";
import { electedBy } from "./sentinels.js";
import { Several } from "./several.js";

/** The servers of a deployment: a Redis, a Redis Cluster, or several independent Redises. */
export type Place = Redis | Cluster | Several;

/** Back-off before the n-th reconnect. */
export const reconnectMs = (times: number): number => Math.min(50 * 2 ** times, 500);

/** Maximum time until a new connection is usable, and for a ping. */
export const PATIENCE_MS = 1_000;

export function connectionsOf(place: Place): (Redis | Cluster)[] {
  return place instanceof Several ? place.nodes.map(({ redis }) => redis) : [place];
}

/** Overrides options of the given connection that break calls: numbers as text, deferred commands, a second deadline. */
const PLAIN = { stringNumbers: false, enableAutoPipelining: false, commandTimeout: undefined };

export const shardOf = (key: string): number => Number(/:(\d+)}/.exec(key)![1]);

/** Maximum shards by which the deployment of a Redis is recognised; a node may have given some shards away. */
const MAX_MARKS = 8;

export function ownPlace(place: Place, namespace: string): Place {
  const metas = (shards: readonly number[]) => shards.slice(0, MAX_MARKS).map((shard) => keyOf(namespace, shard, META));
  if (!(place instanceof Several)) return ownConnection(place, metas([0]));
  return place.by((redis, shards) => ownConnection(redis, metas(shards)) as Redis);
}

/** Returns a connection for calls, which connects on first use. `metas` are the marks of the deployment. */
export function ownConnection(redis: Redis | Cluster, metas: readonly string[] = []): Redis | Cluster {
  const own = redis.isCluster ? ofCluster(redis as Cluster) : ofOne(redis as Redis, metas);
  own.on("error", () => undefined); // each call says what is wrong
  return own;
}

function ofOne(redis: Redis, metas: readonly string[]): Redis {
  const { sentinels, Connector = sentinels ? electedBy(redis.options, metas) : undefined } = redis.options;
  return revived(inTime(redis.duplicate({
    ...PLAIN,
    ...(Connector ? { Connector } : {}),
    lazyConnect: true,
    enableOfflineQueue: false, // what cannot be sent now is not sent later either
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    retryStrategy: reconnectMs,
    // Leaves a former master that has become read-only.
    reconnectOnError: (fault: Error) => fault.message.startsWith("READONLY"),
  })));
}

/** Reconnects after an unexpected end: ioredis gives up if no master is elected. */
function revived(connection: Redis): Redis {
  connection.on("error", (fault) => causes.set(connection, fault));
  connection.on("end", () => {
    setTimeout(() => {
      if (connection.status === "end" && !closed.has(connection)) connection.connect().catch(() => undefined);
    }, reconnectMs(1)).unref();
  });
  return connection;
}

/** The last fault of a connection, which is why the connection has ended. */
const causes = new WeakMap<Redis | Cluster, Error>();

/** Reports whether a call of a key would be written immediately. */
export function isUsable(connection: Redis | Cluster, key: string): boolean {
  return connection.status === "ready" && connectionFor(connection, key)?.status === "ready";
}

/** Waits until calls of a key can be written; rejects if the connection fails now. ioredis continues to reconnect. */
export async function usable(connection: Redis | Cluster, key: string): Promise<void> {
  await ready(connection);
  const node = connectionFor(connection, key);
  if (node && node !== connection) await ready(node).catch(() => undefined); // a cluster looks for the node that took over
}

const becoming = new WeakMap<Redis | Cluster, Promise<void>>();

/** Waits for a connection. All waiting calls share one set of event listeners. */
export function ready(connection: Redis | Cluster): Promise<void> {
  if (connection.status === "ready") return Promise.resolve();
  const made = becoming.get(connection) ?? settled(connection).finally(() => becoming.delete(connection));
  becoming.set(connection, made);
  return made;
}

async function settled(connection: Redis | Cluster): Promise<void> {
  if (closed.has(connection)) throw new ClosedError();
  let fault: Error | undefined;
  let settle = (): void => undefined;
  const isSettled = new Promise<void>((resolve) => (settle = resolve));
  const [events, note] = [["ready", "close", "end"], (why: Error): void => void (fault = why)];
  connection.on("error", note);
  for (const event of events) connection.on(event, settle);
  if (connection.status === "wait") connection.connect().catch(() => undefined); // "close" or "end" says so, too
  if (!["ready", "end"].includes(connection.status)) await isSettled;
  connection.off("error", note);
  for (const event of events) connection.off(event, settle);
  if (connection.status === "ready") return;
  throw closed.has(connection) ? new ClosedError() : (fault ?? causes.get(connection) ?? new Error("Connection is closed.")); // as ioredis says it
}

/** Reports whether the node lacked the script, and so did nothing. */
export const isUnknownScript = (fault: unknown): boolean => fault instanceof Error && fault.message.startsWith("NOSCRIPT");

export async function load(connection: Redis | Cluster, key: string, { source }: Script): Promise<void> {
  const node = connectionFor(connection, key);
  if (node) await node.call("SCRIPT", "LOAD", source);
  else await relearn(connection);
}

export function end(connection: Redis | Cluster): void {
  closed.add(connection);
  connection.disconnect();
}

const closed = new WeakSet<Redis | Cluster>();

/** Drops a connection that is accepted, but silent before becoming ready. */
export function inTime(connection: Redis): Redis {
  let cancel = (): void => undefined;
  const watch = (): void => {
    cancel = inHalves(PATIENCE_MS, () => silence(connection), (silent) => {
      if (silent()) connection.stream.destroy();
      else watch();
    });
  };
  connection.on("connect", () => {
    cancel();
    watch();
  });
  for (const end of ["ready", "close"]) connection.on(end, () => cancel());
  return connection;
}

/**
 * Watches a connection for silence. The returned function returns the connection if it is unchanged and has received nothing
 * since. A connection still being made is never silent, since calls only wait for it.
 */
export function silence(connection: Redis | undefined): () => Redis | undefined {
  if (!connection || !isMade(connection)) return () => undefined;
  const { stream } = connection;
  const received = stream.bytesRead;
  return () => {
    const isSame = isMade(connection) && connection.stream === stream;
    return isSame && stream.bytesRead === received ? connection : undefined;
  };
}

/** Reports whether a server has accepted the connection. A server silent before ready leaves the status "connect". */
export const isMade = ({ status }: Redis): boolean => status === "ready" || status === "connect";

/**
 * Calls `half` after half of the time, and `whole` at the end with the result of `half`, unless cancelled. Two steps, because
 * timers run before pending input: after a pause of the process, one step would find every server silent.
 */
export function inHalves<T>(ms: number, half: () => T, whole: (of: T) => void): () => void {
  let timer = setTimeout(() => {
    const of = half();
    timer = setTimeout(() => whole(of), ms / 2);
  }, ms / 2);
  return () => clearTimeout(timer);
}

function ofCluster(redis: Cluster): Cluster {
  const own = redis.duplicate([], {
    redisOptions: { ...redis.options.redisOptions, ...PLAIN },
    enableAutoPipelining: false,
    lazyConnect: true,
    enableOfflineQueue: true,
    scaleReads: "master",
    maxRedirections: 5,
    retryDelayOnFailover: 0,
    retryDelayOnClusterDown: 0,
    clusterNodeRetryStrategy: null,
    clusterRetryStrategy: reconnectMs,
    shardedSubscribers: false,
  });
  return own.on("+node", inTime); // before it is ready, ioredis asks any one of them whether the cluster is well
}

/** Returns the connection to the node of a key; undefined while the node is unknown. */
export function connectionFor(redis: Place, key: string): Redis | undefined {
  if (redis instanceof Several) return redis.node(shardOf(key))?.redis;
  if (!redis.isCluster) return redis as Redis;
  const cluster = redis as Cluster;
  const node = cluster.slots[new Command("get", [key]).getSlot()!]?.[0];
  return cluster.nodes("all").find(({ options: { host, port } }) => `${host}:${port}` === node);
}

/** Updates the slot map of a cluster. */
export function relearn(redis: Place): Promise<void> {
  if (!redis.isCluster) return Promise.resolve();
  return new Promise((resolve) => (redis as Cluster).refreshSlotsCache(() => resolve()));
}

/**
 * Connects by URL, for a `Client`: `redis://[user[:password]@]host[:port][/db]`, `unix:///path?db=N` or a path;
 * `redis+sentinel://[user[:password]@]host[:port],…/service[?db=N]`; or `redis+cluster://[user[:password]@]host[:port],…`;
 * `rediss+…` for TLS. `options` are options of ioredis for a Redis. The connection opens on first use.
 */
export function connect(url: string, options: object = {}): Redis | Cluster {
  const address = readAddress(url);
  if (typeof options !== "object" || options === null) throw new InvalidMessage("connect's options are an object: those of ioredis");
  options = { connectTimeout: PATIENCE_MS, sentinelCommandTimeout: PATIENCE_MS, ...options };
  const { kind, tls, nodes, path, username, password, service, db } = address;
  const secure = tls ? { tls: {} } : {};
  const login = { ...(username === undefined ? {} : { username }), ...(password === undefined ? {} : { password }) };
  if (kind === "cluster") {
    // TLS certificates name the hosts that the nodes announce.
    const names = tls ? { dnsLookup: (name: string, told: (fault: null, name: string) => void) => told(null, name) } : {};
    return new Cluster(nodes, { lazyConnect: true, ...names, redisOptions: { ...secure, ...login, ...options } });
  }
  if (kind === "single") return new Redis({ lazyConnect: true, ...(path === undefined ? nodes[0] : { path }), db, ...secure, ...login, ...options });
  const group = { sentinels: nodes, name: service, db, enableTLSForSentinelMode: tls, ...(tls ? { sentinelTLS: {} } : {}) };
  return new Redis({ lazyConnect: true, ...group, ...secure, ...login, ...options });
}
