/** Parses the Redis URLs of delayq's programs. */

import { shown } from "./arguments.js";
import { InvalidMessage } from "./names.js";
import { URLS } from "./protocol.js";

export type Address = {
  kind: "single" | "sentinel" | "cluster";
  tls: boolean;
  nodes: { host: string; port: number }[];
  /** Path of a unix socket, which has no nodes. */
  path?: string;
  /** Login of Redis, not of the sentinels. */
  username: string | undefined;
  password: string | undefined;
  service: string;
  db: number;
};

/** Parses a URL, or the path of a socket. Errors contain neither user nor password. */
export function readAddress(url: string): Address {
  if (typeof url !== "string") throw new InvalidMessage(`a URL is text, not ${shown(url)}`);
  const socket = /^(?:(?:redis\+)?unix:\/\/(?=\/)|(?=\/[^/]))/.exec(url);
  if (socket) return ofSocket(url.slice(socket[0].length));
  const scheme = /^(rediss?)(?:\+(sentinel|cluster))?:\/\//.exec(url);
  if (!scheme) throw new InvalidMessage(`the URL has another scheme than redis, rediss, unix, redis+sentinel or redis+cluster: ${URLS.single.shape}`);
  const kind = (scheme[2] ?? "single") as Address["kind"];
  const { host: what, port, shape } = URLS[kind];
  const [place, query] = cut(url.slice(scheme[0].length), "?");
  if (query.includes("@")) throw new InvalidMessage(`the URL has an @ behind a ?: write %3F for a ? in a password; ${shape}`);
  const at = place.lastIndexOf("@");
  const [hosts, path] = cut(place.slice(at + 1), "/");
  if (hosts === "") throw new InvalidMessage(`the URL names no ${what}: ${shape}`);
  const nodes = hosts.split(",").map((text) => nodeOf(text, what, port));
  const twice = nodes.find(({ host, port }, n) => nodes.slice(0, n).some((one) => one.host === host && one.port === port));
  if (twice) throw new InvalidMessage(`the URL names the ${what} ${twice.host}:${twice.port} twice`);
  if (kind === "single" && nodes.length > 1) throw new InvalidMessage(`the URL names ${nodes.length} hosts: write redis+sentinel:// or redis+cluster://`);
  const rest = { single: ofOne, cluster: inCluster, sentinel: bySentinel }[kind](path, query);
  return { kind, tls: scheme[1] === "rediss", nodes, ...loginOf(place.slice(0, Math.max(at, 0))), ...rest };
}

/** Parses the path of a socket, with login and database in the query. */
function ofSocket(text: string): Address {
  const [path, query] = cut(text, "?");
  const { db = "0", user = "", pass = "" } = readQuery(query, URLS.socket.query);
  const login = { username: user || undefined, password: pass || undefined };
  return { kind: "single", tls: false, nodes: [], path: decoded(path, "the path of the socket"), ...login, service: "", db: databaseOf(db) };
}

function ofOne(path: string, query: string): { service: string; db: number } {
  const { db } = readQuery(query, URLS.single.query);
  if (path !== "" && db !== undefined && databaseOf(path) !== databaseOf(db)) throw new InvalidMessage("the URL names two databases, /N and ?db=N");
  return { service: "", db: databaseOf(path || db || "0") };
}

function databaseOf(text: string): number {
  if (/^\d{1,5}$/.test(text)) return Number(text);
  throw new InvalidMessage("db is not the number of a database: expected /N or ?db=N");
}

/** Parses a query, and refuses unknown parameters. */
function readQuery(query: string, known: readonly string[]): Record<string, string> {
  const said: Record<string, string> = {};
  for (const pair of pairsOf(query)) {
    const [key, value] = cut(pair, "=");
    if (!known.includes(key)) throw new InvalidMessage(`the URL has an unknown parameter in its query; one of its kind has: ${known.join(", ")}`);
    if (key in said) throw new InvalidMessage(`the URL has ${key} twice in its query`);
    said[key] = decoded(value, key);
  }
  return said;
}

function decoded(text: string, what: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new InvalidMessage(`${what} in the URL cannot be read: write % as %25`);
  }
}

function cut(text: string, by: string): [string, string] {
  const at = text.indexOf(by);
  return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)];
}

function nodeOf(text: string, what: string, usual: number): { host: string; port: number } {
  const parts = /^(?:\[([\w.:-]+)\]|([\w.-]+))(?::(\d{1,5}))?$/.exec(text);
  const port = Number(parts?.[3] ?? usual);
  if (parts && port >= 1 && port <= 65_535) return { host: (parts[1] ?? parts[2])!, port };
  throw new InvalidMessage(`\`${text.slice(0, 80)}\` is not a ${what}; write host:port, an IPv6 address in brackets`);
}

function loginOf(login: string): { username: string | undefined; password: string | undefined } {
  try {
    if (/[/#[\]]/.test(login)) throw new URIError();
    const [username, password] = cut(login, ":").map(decodeURIComponent) as [string, string];
    return { username: username || undefined, password: password || undefined };
  } catch {
    const written = "write @ : / ? # % as %40 %3A %2F %3F %23 %25";
    throw new InvalidMessage(`the user or password in the URL cannot be read: ${written}`);
  }
}

function inCluster(path: string, query: string): { service: string; db: number } {
  if (!["", "0"].includes(path)) throw new InvalidMessage("the URL names a database; a Redis Cluster has the database 0 alone");
  if (pairsOf(query).length > 0) throw new InvalidMessage("the URL has a parameter in its query; that of a cluster has none");
  return { service: "", db: 0 };
}

function bySentinel(service: string, query: string): { service: string; db: number } {
  if (service === "") {
    const where = "the name of the master in `sentinel monitor` belongs behind the hosts, /service";
    throw new InvalidMessage(`the URL names no service: ${where}`);
  }
  if (!/^[A-Za-z0-9._-]+$/.test(service)) {
    throw new InvalidMessage(`\`${service.slice(0, 80)}\` cannot be the name of a service: A-Z a-z 0-9 . - _ (a database is ?db=N)`);
  }
  return { service, db: databaseOf(readQuery(query, URLS.sentinel.query)["db"] ?? "0") };
}

function pairsOf(query: string): string[] {
  return query.split("&").filter((pair) => pair !== "");
}
