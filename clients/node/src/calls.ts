/** Groups items into script calls and finds the shard of each item. */

import type { Cluster, Redis } from "ioredis";
import {
  connectionFor, connectionsOf, end, inHalves, isMade, isUnknownScript, isUsable, load, ownConnection, ownPlace, relearn, shardOf,
  silence, usable, type Place,
} from "./connections.js";
import { Durabilities, EVERY_TOPIC, ROUNDS, type Waits } from "./durability.js";
import { name, placesOf } from "./names.js";
import { ClosedError, Incomplete, outcomeOf, ScriptError, TimeoutError, unanswered, type Outcome, type Results, type Verb, type Words } from "./outcome.js";
import { GROUP_WRITES, keyOf, MAX_BYTES_A_CALL, MAX_IDS_A_CALL, META, NEVER, WRITES } from "./protocol.js";
import { scriptOf, type Script } from "./scripts.js";
import { Several } from "./several.js";
import { Waiting, type WaitingCall } from "./waiting.js";

/** Maximum calls sent together. */
const MAX_CALLS = 64;

/** Maximum attempts of a call to a node without the script: scripts may be flushed again, and slots move. */
const TRIPS = 6;

/** undefined selects the default of the script. */
export type Arg = Buffer | string | number | undefined;
export type Reply = any[];

/** A message in a call: place (a name, or a shard), topic and arguments. */
export type Item = { place: Buffer | number; topic: Arg[]; args: Arg[]; id: string; bytes?: number };

type Course = { isSent: boolean; isOver: boolean };

/** An item without an answer, with the shards still to be searched. */
type Open = { item: Item; i: number; places: number[] };

/** Items of one call, which share a shard and a topic; `last` marks the last shard to search. */
type Together = { shard: number; last: boolean; topic: Arg[]; items: Open[]; bytes: number };

export class Calls {
  /** Shard counts of every layout, newest last. Replaced as a whole, never changed. */
  private counts: readonly number[] = [];
  /** Identity of the deployment, as the first shard that refused a layout named it. */
  identity = "";
  private learning?: Promise<unknown>;
  /** Close of a silent connection: ioredis would abandon calls queued for the next connection, too. */
  private closing: Promise<unknown> = Promise.resolve();
  private isClosed = false;
  readonly redis: Place;
  private readonly durabilities = new Durabilities();
  private readonly waiting: Waiting;

  /** `timeoutMs` is the deadline of each call, `confirmTimeoutMs` the deadline of replicas and disks. */
  constructor(
    given: Place, readonly namespace: string, private readonly timeoutMs: number, private readonly confirmTimeoutMs: number,
  ) {
    if (connectionsOf(given).some((redis) => redis.options.keyPrefix)) throw new Error("the connection's keyPrefix hides the deployment's keys");
    name("namespace", namespace);
    const own = (this.redis = ownPlace(given, namespace));
    const of = (node: string) => own instanceof Several ? own.nodes.find(({ name }) => name === node)!.redis : own;
    const moved = (): void => void relearn(this.redis);
    this.waiting = new Waiting((node) => ownConnection(of(node)), timeoutMs, confirmTimeoutMs, moved);
  }

  /** Returns the calls of the same deployment on connections of their own. */
  apart(): Calls {
    return new Calls(this.redis, this.namespace, this.timeoutMs, this.confirmTimeoutMs);
  }

  close(): void {
    this.isClosed = true;
    for (const redis of connectionsOf(this.redis)) end(redis);
    this.waiting.close();
  }

  /** Returns the number of shards. The first call asks Redis, which refuses an unknown layout and names the present one. */
  async shards(): Promise<number> {
    if (this.counts.length === 0) {
      this.learning ??= this.learn().finally(() => (this.learning = undefined));
      await this.learning;
    }
    return this.counts.at(-1)!;
  }

  /** Asks one shard per Redis until a Redis answers. */
  private async learn(): Promise<void> {
    const faults: unknown[] = [];
    for (const shard of this.redis instanceof Several ? this.redis.firstShards() : [0]) {
      try {
        await this.call("describe", shard, [""]);
        return;
      } catch (fault) {
        faults.push(fault);
      }
    }
    throw faults[0];
  }

  /** The number of shards; 0 while unknown. */
  get shardsNow(): number {
    return this.counts.at(-1) ?? 0;
  }

  get isSeveral(): boolean {
    return this.redis instanceof Several;
  }

  /** Returns the node addressed by calls to a shard; "" unless several Redises share the deployment. */
  nodeName(shard: number): string {
    return (this.redis instanceof Several && this.redis.node(shard)?.name) || "";
  }

  /** Returns the name of the server of a shard; "" if unknown. */
  serverName(shard: number): string {
    const options = connectionFor(this.redis, keyOf(this.namespace, shard, META))?.options;
    return this.nodeName(shard) || (options ? `${options.host}:${options.port}` : "");
  }

  /** Yields the shards that may hold a name, newest layout first, including shards added by a growth meanwhile. */
  async *places(place: Buffer): AsyncGenerator<number> {
    await this.shards();
    const seen = new Set<number>();
    for (;;) {
      const next = placesOf(place, this.counts).find((shard) => !seen.has(shard));
      if (next === undefined) return;
      seen.add(next);
      yield next;
    }
  }

  /** Returns the shards of a name, after `shards` has been called. */
  placesNow(place: Buffer): number[] {
    return placesOf(place, this.counts);
  }

  /** Calls a script in every shard, and starts over if a growth changes the number of shards. */
  async everywhere<T>(one: (shard: number, shards: number) => Promise<T>): Promise<T[]> {
    for (;;) {
      const shards = await this.shards();
      const all = await Promise.all(Array.from({ length: shards }, (_, shard) => one(shard, shards)));
      if (shards === this.counts.at(-1)) return all;
    }
  }

  /** Returns the confirmations required for a write. */
  waitsOf(verb: Verb, { topic }: Pick<Item, "topic">): Waits {
    return WRITES.includes(verb) ? this.durabilities.waits(String(topic[0])) : "";
  }

  /** Reports whether a call was refused for its durability, and caches the durability. */
  isLearned({ topic }: Item, fault: unknown): boolean {
    return this.durabilities.learn(String(topic[0] ?? EVERY_TOPIC), fault);
  }

  /** Runs a verb for all items. Answers are kept when other items fail. */
  async each<V extends Verb>(verb: V, items: readonly Item[]): Promise<Outcome<Words[V]>[]> {
    const outcomes: Outcome[] = [];
    const faults: unknown[] = [];
    let left = [...items.keys()];
    for (let round = 0; round < ROUNDS && left.length > 0; round++) {
      const lanes = new Map<Waits, number[]>();
      for (const i of left) {
        const waits = this.waitsOf(verb, items[i]!);
        const lane = lanes.get(waits) ?? [];
        lane.push(i);
        lanes.set(waits, lane);
      }
      for (const [waits, some] of [...lanes].sort(([one], [other]) => (one < other ? -1 : 1))) { // nothing comes first
        const results = await this.carryOut(verb, some.map((i) => items[i]!), waits);
        some.forEach((i, n) => {
          if (results.outcomes[n]) outcomes[i] = results.outcomes[n];
          faults[i] = results.faults[n];
        });
      }
      left = left.filter((i) => !outcomes[i] && this.isLearned(items[i]!, faults[i]));
    }
    const missing = items.findIndex((_, i) => !outcomes[i]);
    if (missing < 0) return outcomes as Outcome<Words[V]>[];
    const fault = faults[missing];
    if (outcomes.length === 0) throw fault;
    throw new Incomplete(items.map(({ id }, i) => outcomes[i] ?? unanswered(id)), fault);
  }

  async carryOut(verb: Verb, items: readonly Item[], waits: Waits): Promise<Results> {
    const results: Results = { outcomes: [], faults: [] };
    const filled = this.shards().then(() => this.fill(verb, items, waits, results));
    const outage = await filled.catch((fault: unknown) => fault);
    items.forEach((_, i) => {
      if (!results.outcomes[i]) results.faults[i] ??= outage;
    });
    return results;
  }

  /** Sends items until every item has an outcome or no server answers. A refusal by one shard does not affect other shards. */
  private async fill(verb: Verb, items: readonly Item[], waits: Waits, { outcomes, faults }: Results): Promise<unknown> {
    let counts: readonly number[] = [];
    let left: Open[] = items.map((item, i) => ({ item, i, places: [] }));
    while (left.length > 0) {
      if (counts !== this.counts) {
        counts = this.counts;
        for (const one of left) one.places = placesOf(one.item.place, counts);
        // Puts search the places of earlier layouts first, and the present place last.
        if (verb === "put") for (const { places } of left) places.reverse();
      }
      const calls = together(left).slice(0, MAX_CALLS);
      const replies = await this.send(verb, calls.map((one) => ({ shard: one.shard, args: argsOf(verb, one) })), counts, waits);
      let outage: unknown;
      for (const [n, reply] of replies.entries()) {
        const call = calls[n]!;
        if (reply.status === "fulfilled") answer(call, reply.value, outcomes);
        else for (const { i } of call.items) faults[i] = reply.reason;
        if (reply.status === "rejected" && !(reply.reason instanceof ScriptError)) outage ??= reply.reason;
      }
      const isAnswered = replies.some((reply) => reply.status === "fulfilled" || reply.reason instanceof ScriptError);
      if (outage !== undefined && !isAnswered) return outage;
      left = left.filter(({ i }) => !outcomes[i] && faults[i] === undefined);
    }
    return undefined;
  }

  /** Returns the reply of one call under any layout. A change of a group waits for all durabilities of the shard. */
  async call(verb: string, shard: number, args: Arg[]): Promise<any> {
    for (let round = 1; ; ) {
      const waits = GROUP_WRITES.includes(verb) ? this.durabilities.waits(EVERY_TOPIC) : "";
      const [reply] = await this.send(verb, [{ shard, args }], this.counts, waits);
      if (reply!.status === "fulfilled" && reply!.value !== undefined) return reply!.value;
      if (reply!.status === "fulfilled") continue; // another layout, which was followed
      if (round++ >= ROUNDS || !this.durabilities.learn(EVERY_TOPIC, reply!.reason)) throw reply!.reason;
    }
  }

  /**
   * Returns the replies after the required confirmations; undefined if the shard had another layout, which the client adopted.
   */
  private async send(
    verb: string, calls: readonly { shard: number; args: Arg[] }[], counts: readonly number[], waits: Waits,
  ): Promise<PromiseSettledResult<Reply | undefined>[]> {
    const whole = calls.map(({ shard, args }) => {
      const node = this.nodeName(shard);
      const layout = `${counts.length}${node && `@${node}`} ${waits}`.trimEnd();
      return { verb, keys: [META, NEVER].map((name) => keyOf(this.namespace, shard, name)) as [string, string], args: [layout, ...args.map((arg) => arg ?? "")] };
    });
    await this.closing;
    if (this.isClosed) return calls.map(() => ({ status: "rejected", reason: new ClosedError() }));
    const replies = waits === ""
      ? await Promise.allSettled(whole.map(({ keys, args }) => this.plain(verb, keys, args)))
      : await this.waited(waits, calls.map(({ shard }) => shard), whole);
    return Promise.allSettled(replies.map((reply, n) => this.followed(calls[n]!.shard, reply)));
  }

  private async plain(verb: string, keys: [string, string], args: (string | number | Buffer)[]): Promise<any> {
    const redis = this.redis instanceof Several ? connectionFor(this.redis, keys[0]) : this.redis;
    if (!redis) throw (this.redis as Several).missing(shardOf(keys[0]));
    return this.inTime((course) => this.carry(redis, scriptOf(verb), keys, args, course), keys[0]);
  }

  /** Sends a call when the connection is usable, and never after the deadline. */
  private async carry(
    redis: Redis | Cluster, script: Script, keys: [string, string], args: (string | number | Buffer)[], course: Course,
  ): Promise<any> {
    for (let trip = 1; ; trip++) {
      if (!isUsable(redis, keys[0])) await usable(redis, keys[0]);
      if (course.isOver) throw new Error("the deadline of the call had passed: it was not sent");
      course.isSent = true;
      try {
        return await redis.callBuffer("EVALSHA", [script.sha, 2, ...keys, ...args]);
      } catch (fault) {
        if (!isUnknownScript(fault) || trip === TRIPS) throw fault;
      }
      course.isSent = false;
      await load(redis, keys[0], script);
    }
  }

  /** Sends the calls of each of several Redises separately. */
  private async waited(waits: Waits, shards: readonly number[], calls: readonly WaitingCall[]): Promise<PromiseSettledResult<any>[]> {
    if (!(this.redis instanceof Several)) return this.waiting.send(waits, calls);
    const several = this.redis;
    const replies: PromiseSettledResult<any>[] = shards.map((shard) => ({ status: "rejected", reason: several.missing(shard) }));
    await Promise.all(several.nodes.map(async ({ name: node }) => {
      const some = [...shards.keys()].filter((n) => this.nodeName(shards[n]!) === node);
      if (some.length === 0) return;
      const answers = await this.waiting.send(waits, some.map((n) => calls[n]!), node);
      some.forEach((n, i) => (replies[n] = answers[i]!));
    }));
    return replies;
  }

  private async followed(shard: number, reply: PromiseSettledResult<any>): Promise<Reply | undefined> {
    if (reply.status === "fulfilled") return Array.isArray(reply.value) ? reply.value : [reply.value];
    const fault = reply.reason;
    if (fault instanceof Error && fault.message.startsWith("WRONGTYPE")) {
      // A script stops at such a key, and its earlier writes stay.
      const stopped = `a key of shard ${shard} has another type, and the call may be carried out in part`;
      throw new ScriptError(`WRONGTYPE ${stopped}: \`delayq audit\` names the key`);
    }
    if (!(fault instanceof Error && fault.message.startsWith("DQ"))) throw this.isClosed ? new ClosedError() : fault;
    await this.follow(shard, new ScriptError(fault.message));
    return undefined;
  }

  /** Returns the answer, or throws a TimeoutError at the deadline. A connection silent for half of the deadline is replaced. */
  private async inTime<T>(work: (course: Course) => Promise<T>, key: string): Promise<T> {
    let cancel = (): void => undefined;
    const course: Course = { isSent: false, isOver: false };
    const command = work(course);
    const deadline = new Promise<never>((_, reject) => {
      cancel = inHalves(this.timeoutMs, () => silence(connectionFor(this.redis, key)), (silent) => {
        course.isOver = true;
        const connection = silent();
        if (connection) this.replace(connection);
        reject(new TimeoutError(this.timeoutMs, course.isSent, command));
      });
    });
    try {
      return await Promise.race([command, deadline]);
    } finally {
      cancel();
    }
  }

  /** Replaces a connection; later calls wait for the new connection. */
  replace(connection: Redis): void {
    if (!isMade(connection)) return;
    this.closing = new Promise((resolve) => connection.once("close", resolve));
    connection.stream.destroy();
  }

  /** Adopts the layout of a shard that is ahead, and updates a shard that is behind. */
  private async follow(shard: number, refusal: ScriptError): Promise<void> {
    const [, word = "", text = "", identity = ""] = refusal.message.split(" ");
    // A deployment that is created again has another identity.
    if (refusal.code === "DQUNINITIALISED") this.identity = "";
    if (refusal.code === "DQLAYOUT" && /^[0-9a-f]{32}$/.test(identity)) {
      if (this.identity !== "" && this.identity !== identity) {
        const known = this.identity.slice(0, 8);
        const foreign = `is of deployment ${identity.slice(0, 8)}, and this client serves deployment ${known}`;
        throw new ScriptError(`DQLAYOUT shard ${shard} ${foreign}: correct the address of Redis`);
      }
      this.identity = identity;
    }
    const [layout, recorded = ""] = word.split("@");
    const at = this.nodeName(shard);
    const to = /^\d+>([\w-]+)/.exec(word)?.[1];
    if (refusal.code === "DQLAYOUT" && to !== undefined) {
      if (to === at) throw new Error(`shard ${shard} is moving to node ${to}, which does not serve it yet`);
      if (this.redis instanceof Several && this.redis.move(shard, to)) return;
      throw new ScriptError(`DQLAYOUT shard ${shard} has moved to node ${to}, which is not among those given: add it`);
    }
    if (refusal.code === "DQLAYOUT" && recorded !== "" && recorded !== at) {
      const kept = `is recorded on ${keeper(recorded)}, but this client has it on ${keeper(at)}: correct its nodes`;
      throw new ScriptError(`DQLAYOUT shard ${shard} ${kept}`);
    }
    if (refusal.code !== "DQLAYOUT") throw at === "" ? refusal : new ScriptError(`${refusal.message} (node ${at})`);
    const [theirs, ours] = [text.split(",").map(Number), this.counts];
    const same = theirs.every((count, i) => i >= ours.length || count === ours[i]);
    if (layout !== String(theirs.length) || !same) throw refusal;
    if (theirs.length >= ours.length) this.counts = theirs;
    else await this.call("grow", shard, [shard, ours.join(",")]);
  }
}

const keeper = (node: string): string => (node === "" ? "one Redis without a node's name" : `node ${node}`);

/** Groups items into calls, in order: one shard and topic per call, within the limits. */
function together(left: readonly Open[]): Together[] {
  const calls: Together[] = [];
  const latest = new Map<string, Together>();
  let call: Together | undefined;
  for (const one of left) {
    const { topic, bytes = 0 } = one.item;
    const [shard, last] = [one.places[0]!, one.places.length === 1];
    if (!call || call.shard !== shard || call.last !== last || call.topic[0] !== topic[0]) call = latest.get(`${shard} ${last} ${topic[0]}`);
    if (!call || call.items.length === MAX_IDS_A_CALL || call.bytes + bytes > MAX_BYTES_A_CALL) {
      call = { shard, last, topic, items: [], bytes: 0 };
      latest.set(`${shard} ${last} ${topic[0]}`, call);
      calls.push(call);
    }
    call.items.push(one);
    call.bytes += bytes;
  }
  return calls;
}

function argsOf(verb: string, { topic, items, last }: Together): Arg[] {
  const args: Arg[] = [];
  for (const { item } of items) args.push(...item.args);
  if (verb === "put" && !last) for (let at = 2; at < args.length; at += 4) args[at] += " earlier";
  return [...topic, ...args];
}

/** Stores the answers. Items that may be in another shard stay open, as do all items without a reply. */
function answer({ items, last, shard }: Together, reply: Reply | undefined, outcomes: Outcome[]): void {
  if (!reply) return;
  items.forEach((one, n) => {
    const text = String(reply.at(n - items.length));
    if (!last && ["unknown", "moved"].includes(text)) return void one.places.shift();
    const outcome = outcomeOf(text, shard, one.item.id);
    if (text === "stored" || text === "ready") outcome.timeMs = timeMs(one.item.args[1], reply[0]);
    outcomes[one.i] = outcome;
  });
}

/** Returns the due time of a put: ms, or a delay from the time of the reply (µs). */
function timeMs(due: Arg, nowUs: number): number {
  return typeof due === "number" ? due : Math.floor(nowUs / 1000) + Number(due);
}
