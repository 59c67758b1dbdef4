/**
 * Connections of a client's own, made like the one that it was given.
 *
 * They repeat nothing that may have been carried out: ioredis would send a command again whose answer is lost, and not all
 * calls may be repeated without saying so. What a node of a cluster refuses is asked again a few times, for nothing was
 * done: MOVED at the node that has the slot now; ASK and TRYAGAIN, by which both nodes refuse a slot that is on its way.
 */

import { Cluster, Command, Redis } from "ioredis";
import { readAddress } from "./address.js";
import { InvalidMessage } from "./names.js";
import { ClosedError } from "./outcome.js";
import type { Script } from "./scripts.js";
import { Several } from "./several.js";

/** What keeps a deployment: a Redis, a Redis Cluster, or several independent Redises. */
export type Place = Redis | Cluster | Several;

/** How long to wait before the n-th try to connect again. */
export const reconnectMs = (times: number): number => Math.min(50 * 2 ** times, 500);

/** How long a server may take until a connection to it can be used, and to answer whether it is there. */
export const PATIENCE_MS = 1_000;

/** The connections of a place. */
export function connectionsOf(place: Place): (Redis | Cluster)[] {
  return place instanceof Several ? place.nodes.map(({ redis }) => redis) : [place];
}

/** Overrides options of the given connection that break calls: numbers as text, deferred commands, a second deadline. */
const PLAIN = { stringNumbers: false, enableAutoPipelining: false, commandTimeout: undefined };

/** The number of a shard, by one of its keys or channels. */
export const shardOf = (key: string): number => Number(/:(\d+)}/.exec(key)![1]);

/** Connections for calls, one to each of several Redises. */
export function ownPlace(place: Place): Place {
  return place instanceof Several ? place.by((redis) => ownConnection(redis) as Redis) : ownConnection(place);
}

/** A connection for calls. It connects when it is used first. */
export function ownConnection(redis: Redis | Cluster): Redis | Cluster {
  const own = redis.isCluster ? ofCluster(redis as Cluster) : ofOne(redis as Redis);
  own.on("error", () => undefined); // each call says what is wrong
  return own;
}

function ofOne(redis: Redis): Redis {
  return revived(inTime(redis.duplicate({
    ...PLAIN,
    lazyConnect: true,
    enableOfflineQueue: false, // what cannot be sent now is not sent later either
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    retryStrategy: reconnectMs,
    sentinelRetryStrategy: reconnectMs,
    // ioredis would wait for a silent one without an end.
    sentinelCommandTimeout: redis.options.sentinelCommandTimeout ?? PATIENCE_MS,
    // A former master is left as soon as a sentinel names another one, or it says itself that it takes no writes.
    failoverDetector: true,
    reconnectOnError: (fault: Error) => fault.message.startsWith("READONLY"),
  })));
}

/** Connects again after an end that nobody asked for: ioredis gives up where it hears of a failover while it connects. */
function revived(connection: Redis): Redis {
  connection.on("end", () => {
    setTimeout(() => {
      if (connection.status === "end" && !closed.has(connection)) connection.connect().catch(() => undefined);
    }, reconnectMs(1)).unref();
  });
  return connection;
}

/** Whether a call of a key would be written at once. */
export function isUsable(connection: Redis | Cluster, key: string): boolean {
  return connection.status === "ready" && connectionFor(connection, key)?.status === "ready";
}

/** Waits until calls of a key can be written; rejects if the connection cannot be made now. ioredis then tries again by itself. */
export async function usable(connection: Redis | Cluster, key: string): Promise<void> {
  await ready(connection);
  const node = connectionFor(connection, key);
  if (node && node !== connection) await ready(node).catch(() => undefined); // a cluster looks for the node that took over
}

const becoming = new WeakMap<Redis | Cluster, Promise<void>>();

/** Waits until a connection is made. All waiting calls share one set of event listeners. */
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
  throw closed.has(connection) ? new ClosedError() : (fault ?? new Error("Connection is closed.")); // as ioredis says it
}

/** Whether the node refused a call because it does not know the script. Nothing was done. */
export const isUnknownScript = (fault: unknown): boolean => fault instanceof Error && fault.message.startsWith("NOSCRIPT");

/** Loads a script into the node that serves a key. */
export async function load(connection: Redis | Cluster, key: string, { source }: Script): Promise<void> {
  const node = connectionFor(connection, key);
  if (node) await node.call("SCRIPT", "LOAD", source);
  else await relearn(connection);
}

/** Ends a connection for good. */
export function end(connection: Redis | Cluster): void {
  closed.add(connection);
  connection.disconnect();
}

const closed = new WeakSet<Redis | Cluster>();

/** Gives a connection up that is taken, and then silent before it can be used. */
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
 * Whether a connection is silent from now on: who asks later gets it if it is still the same one, and has received nothing
 * since. One that is not made yet never is: that somebody waits for it says nothing of it.
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

/** Whether a server has taken a connection. One that falls silent before it is ready has the status "connect". */
export const isMade = ({ status }: Redis): boolean => status === "ready" || status === "connect";

/**
 * Calls `half` after half of a time, and `whole` at its end with what that returned, unless it is cancelled. Timers come
 * before what has arrived: in one step, a process that stood still would take everybody else for silent.
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

/** The connection that calls of a key go over; undefined while the node for it is not known. */
export function connectionFor(redis: Place, key: string): Redis | undefined {
  if (redis instanceof Several) return redis.node(shardOf(key))?.redis;
  if (!redis.isCluster) return redis as Redis;
  const cluster = redis as Cluster;
  const node = cluster.slots[new Command("get", [key]).getSlot()!]?.[0];
  return cluster.nodes("all").find(({ options: { host, port } }) => `${host}:${port}` === node);
}

/** Has a cluster's map of slots read again. */
export function relearn(redis: Place): Promise<void> {
  if (!redis.isCluster) return Promise.resolve();
  return new Promise((resolve) => (redis as Cluster).refreshSlotsCache(() => resolve()));
}

/**
 * What a URL names, for a `Client`: `redis://[user[:password]@]host[:port][/db]`, `unix:///path?db=N` or a path;
 * `redis+sentinel://[user[:password]@]host[:port],…/service[?db=N]`; or `redis+cluster://[user[:password]@]host[:port],…`;
 * `rediss+…` for TLS. `options` are ioredis's own for a Redis. It connects when it is used.
 */
export function connect(url: string, options: object = {}): Redis | Cluster {
  const address = readAddress(url);
  if (typeof options !== "object" || options === null) throw new InvalidMessage("connect's options are an object: those of ioredis");
  options = { connectTimeout: PATIENCE_MS, sentinelCommandTimeout: PATIENCE_MS, ...options };
  const { kind, tls, nodes, path, username, password, service, db } = address;
  const secure = tls ? { tls: {} } : {};
  const login = { ...(username === undefined ? {} : { username }), ...(password === undefined ? {} : { password }) };
  if (kind === "cluster") {
    // The names of TLS certificates are those that the nodes announce.
    const names = tls ? { dnsLookup: (name: string, told: (fault: null, name: string) => void) => told(null, name) } : {};
    return new Cluster(nodes, { lazyConnect: true, ...names, redisOptions: { ...secure, ...login, ...options } });
  }
  if (kind === "one") return new Redis({ lazyConnect: true, ...(path === undefined ? nodes[0] : { path }), db, ...secure, ...login, ...options });
  const group = { sentinels: nodes, name: service, db, enableTLSForSentinelMode: tls, ...(tls ? { sentinelTLS: {} } : {}) };
  return new Redis({ lazyConnect: true, ...group, ...secure, ...login, ...options });
}
