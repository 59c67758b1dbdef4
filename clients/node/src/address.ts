/** The URLs that name a deployment's Redis by several hosts, as delayq's own programs read them. */

import { InvalidMessage } from "./names.js";

/** Of each kind: what a host of it is called, where it listens by default, and how the URL looks. */
const KINDS = {
  sentinel: ["sentinel", 26_379, "expected redis+sentinel://host:port,host:port/service"],
  cluster: ["node of a cluster", 6_379, "expected redis+cluster://host:port,host:port"],
} as const;

export type Address = {
  kind: "sentinel" | "cluster";
  tls: boolean;
  nodes: { host: string; port: number }[];
  /** The login of the Redis, not of its sentinels. */
  username: string | undefined;
  password: string | undefined;
  service: string;
  db: number;
};

/** What a URL says that names several hosts; undefined for any other. Its faults are named without user and password. */
export function readAddress(url: string): Address | undefined {
  if (typeof url !== "string") throw new InvalidMessage(`a URL is text, not ${url}`);
  const scheme = /^(rediss?)\+(sentinel|cluster):\/\//.exec(url);
  if (!scheme) return undefined;
  const kind = scheme[2] as Address["kind"];
  const [what, port, shape] = KINDS[kind];
  const [place, query] = cut(url.slice(scheme[0].length), "?");
  if (query.includes("@")) throw new InvalidMessage(`the URL has an @ behind a ?: write %3F for a ? in a password; ${shape}`);
  const at = place.lastIndexOf("@");
  const [hosts, path] = cut(place.slice(at + 1), "/");
  if (hosts === "") throw new InvalidMessage(`the URL names no ${what}: ${shape}`);
  const nodes = hosts.split(",").map((text) => nodeOf(text, what, port));
  const twice = nodes.find(({ host, port }, n) => nodes.slice(0, n).some((one) => one.host === host && one.port === port));
  if (twice) throw new InvalidMessage(`the URL names the ${what} ${twice.host}:${twice.port} twice`);
  const rest = kind === "cluster" ? inCluster(path, query) : bySentinel(path, query);
  return { kind, tls: scheme[1] === "rediss", nodes, ...loginOf(place.slice(0, Math.max(at, 0))), ...rest };
}

function cut(text: string, by: string): [string, string] {
  const at = text.indexOf(by);
  return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)];
}

function nodeOf(text: string, what: string, usual: number): { host: string; port: number } {
  const parts = /^(?:\[([\w.:-]+)\]|([\w.-]+))(?::(\d{1,5}))?$/.exec(text);
  const port = Number(parts?.[3] ?? usual);
  if (parts && port >= 1 && port <= 65_535) return { host: (parts[1] ?? parts[2])!, port };
  throw new InvalidMessage(`\`${text}\` is not a ${what}; write host:port, an IPv6 address in brackets`);
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
    throw new InvalidMessage(`\`${service}\` cannot be the name of a service: A-Z a-z 0-9 . - _ (a database is ?db=N)`);
  }
  let db = 0;
  for (const pair of pairsOf(query)) {
    const [key, value] = cut(pair, "=");
    if (key !== "db") throw new InvalidMessage("the URL has an unknown parameter in its query; one with sentinels has: db");
    if (!/^\d{1,5}$/.test(value)) throw new InvalidMessage("db is not the number of a database");
    db = Number(value);
  }
  return { service, db };
}

function pairsOf(query: string): string[] {
  return query.split("&").filter((pair) => pair !== "");
}
