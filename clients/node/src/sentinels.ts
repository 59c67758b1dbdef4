/**
 * The master that sentinels elect: the Redis that a majority of the configured sentinels names.
 *
 * A sentinel that was cut off, or that watches another Redis under the same name, is outvoted, regardless of the epoch of its
 * configuration. As long as no master is known, the answering sentinels elect the first one. A question before each connection
 * checks that the Redis is a master and keeps the same deployment as the master before.
 */

import { createConnection, type Socket } from "node:net";
import { connect as createSecureConnection } from "node:tls";
import { AbstractConnector, Redis, type RedisOptions, type SentinelAddress } from "ioredis";

/** Maximum time for an answer, unless ioredis's `sentinelCommandTimeout` limits the wait for sentinels. */
const PATIENCE_MS = 1_000;
/** Pause between questions while connections are open: a former master that is cut off from sentinels, but not from clients, accepts writes that are lost. */
const ASK_MS = 1_000;
/** Extra time, after the first answer, to wait for the answers of other sentinels. */
const MORE_MS = 250;

type Address = { host: string; port: number };
/** The answer of a sentinel: a master, or none and the reason. */
type Vote = { master?: Address; text: string };
type Connector = NonNullable<RedisOptions["Connector"]>;

const shown = ({ host, port }: Address): string => `${host}:${port}`;

/** Returns the connectors of ioredis that lead to the elected master. `metas` are the shards by which a deployment is recognised. */
export function electedBy(options: RedisOptions, metas: readonly string[]): Connector {
  const sentinels = new Sentinels(options, metas);
  return class extends AbstractConnector {
    constructor(private readonly options: any) {
      super(options.disconnectTimeout);
    }

    override check({ role }: { role?: string }): boolean {
      return role === undefined || role === "master";
    }

    async connect(): Promise<Socket> {
      this.connecting = true;
      const master = await sentinels.elect();
      await sentinels.verify(master, this.options);
      if (!this.connecting) throw new Error("Connection is closed."); // as ioredis says it
      const { enableTLSForSentinelMode, tls } = this.options;
      this.stream = enableTLSForSentinelMode && tls ? createSecureConnection({ ...master, ...tls }) : createConnection(master);
      this.stream.once("error", (fault) => (this.firstError = fault));
      sentinels.keep(this.stream, master);
      return this.stream;
    }
  } as unknown as Connector;
}

class Sentinels {
  private master: Address | undefined;
  private election: Promise<Address> | undefined;
  private asking: NodeJS.Timeout | undefined;
  /** Open connections, with the master. */
  private readonly open = new Map<Socket, string>();
  /** The deployment seen last, with the master. */
  private seen = { identity: "", master: "" };

  constructor(private readonly options: RedisOptions, private readonly metas: readonly string[]) {}

  /** Asks all sentinels at once, and returns the master. */
  elect(): Promise<Address> {
    return (this.election ??= this.elected().finally(() => (this.election = undefined)));
  }

  private async elected(): Promise<Address> {
    const votes = await this.votes();
    const heard = votes.filter(({ master }) => master);
    const named = majority(votes, votes.length) ?? (this.master ? undefined : majority(votes, heard.length));
    if (named) this.begin(named);
    if (heard.length > 0 && this.master) return this.master;
    const who = heard.length > 0 ? "the sentinels do not agree on the" : "no sentinel names the";
    throw new Error(`cannot reach Redis: ${who} master of ${this.options.name}: ${votes.map(({ text }) => text).join("; ")}`);
  }

  /** Begins the term of a master, and ends the connections to the former master. */
  private begin(master: Address): void {
    this.master = master;
    for (const [stream, of] of this.open) if (of !== shown(master)) stream.destroy();
  }

  /** Returns the answer of each sentinel, until further answers would not change the result. */
  private async votes(): Promise<Vote[]> {
    const sentinels = this.options.sentinels!;
    const votes = sentinels.map((one): Vote => ({ text: `${nameOf(one)}: no reply` }));
    let patience: NodeJS.Timeout | undefined;
    await new Promise<void>((resolve) => {
      const all = sentinels.map(async (one, n) => {
        const vote = (votes[n] = await this.ask(one));
        if (majority(votes, votes.length)) resolve();
        if (vote.master) patience ??= setTimeout(resolve, MORE_MS);
      });
      void Promise.all(all).then(() => resolve());
    });
    clearTimeout(patience);
    return [...votes];
  }

  private async ask(one: Partial<SentinelAddress>): Promise<Vote> {
    const { name, sentinelUsername, sentinelPassword, sentinelTLS, sentinelCommandTimeout = PATIENCE_MS, family } = this.options;
    const { host = "127.0.0.1", port = 26_379 } = one;
    const sentinel = question({
      host, port, family: one.family ?? family, username: sentinelUsername, password: sentinelPassword, tls: sentinelTLS,
      commandTimeout: sentinelCommandTimeout,
    });
    try {
      // While the sentinel leads a failover, only the first command names the new master.
      const address = (await sentinel.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", name)) as [string, string] | null;
      if (!address) return { text: `${nameOf(one)}: no master named ${name}` };
      const state = (await sentinel.ask("SENTINEL", "MASTER", name)) as string[];
      const master = this.translated({ host: address[0], port: Number(address[1]) });
      return { master, text: `${nameOf(one)} names ${shown(master)} by epoch ${state[state.indexOf("config-epoch") + 1]}` };
    } catch (fault) {
      const why = (fault as Error).message;
      return { text: `${nameOf(one)}: ${/timed out|ETIMEDOUT/.test(why) ? "no reply" : why}` };
    } finally {
      sentinel.end();
    }
  }

  /** Translates an address by ioredis's `natMap`. */
  private translated(address: Address): Address {
    const { natMap } = this.options;
    return (typeof natMap === "function" ? natMap(shown(address)) : natMap?.[shown(address)]) ?? address;
  }

  /** Checks, before any write, that the Redis is a master of the same deployment. */
  async verify(master: Address, options: RedisOptions): Promise<void> {
    const { username, password, db, family, enableTLSForSentinelMode, tls } = options;
    const secure = enableTLSForSentinelMode ? { tls } : {};
    const redis = question({ ...master, username, password, db, family, ...secure, commandTimeout: PATIENCE_MS });
    try {
      const [role, ...found] = await Promise.all([redis.ask("ROLE"), ...this.metas.map((meta) => redis.ask("HMGET", meta, "identity"))]);
      const identity = (found as [string | null][]).find(([one]) => one)?.[0] ?? "";
      const fault = (role as string[])[0] === "master" ? this.fault(shown(master), identity) : "it is a replica";
      if (fault) throw new Error(`cannot reach Redis at ${shown(master)}, the master of ${this.options.name}: the sentinels name this Redis, but ${fault}`);
    } finally {
      redis.end();
    }
  }

  /** Notes the deployment of a master. Returns why the master is not to be followed. */
  private fault(master: string, identity: string): string | undefined {
    if (identity === "") return undefined; // an empty Redis is refused by its shards
    const known = this.seen;
    // A deployment that was created again is at the same master.
    if (known.identity !== "" && known.identity !== identity && known.master !== master) {
      const foreign = `it keeps deployment ${identity.slice(0, 8)} instead of ${known.identity.slice(0, 8)}`;
      return `${foreign}: correct the masters that the sentinels watch, or restart this process if the deployment was created again`;
    }
    this.seen = { identity, master };
    return undefined;
  }

  /** Follows the sentinels while a connection is open, and ends the connection with the master's term. */
  keep(stream: Socket, master: Address): void {
    this.open.set(stream, shown(master));
    this.asking ??= setInterval(() => void this.elect().catch(() => undefined), ASK_MS).unref();
    stream.once("close", () => {
      this.open.delete(stream);
      if (this.open.size > 0) return;
      clearInterval(this.asking);
      this.asking = undefined;
    });
    if (shown(this.master!) !== shown(master)) stream.destroy(); // another Redis has become the master
  }
}

const nameOf = ({ host = "127.0.0.1", port = 26_379 }: Partial<SentinelAddress>): string => `sentinel ${host}:${port}`;

/** Returns the master that more than half of so many sentinels name. */
function majority(votes: readonly Vote[], of: number): Address | undefined {
  const masters = votes.flatMap(({ master }) => master ?? []);
  return masters.find((one) => masters.filter((other) => shown(other) === shown(one)).length > of / 2);
}

/** Connects for a few questions. A lost connection is reported with its cause. */
function question(options: object): { ask: (...words: any[]) => Promise<unknown>; end: () => void } {
  const redis = new Redis({ ...options, retryStrategy: () => null, enableReadyCheck: false, disableClientInfo: true });
  let cause: Error | undefined;
  redis.on("error", (fault) => (cause = fault));
  const ask = (name: string, ...words: any[]): Promise<unknown> => redis.call(name, words).catch((fault) => {
    throw fault.message === "Connection is closed." ? (cause ?? fault) : fault;
  });
  return { ask, end: () => redis.disconnect() };
}
