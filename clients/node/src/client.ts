/** The client: operations of producers and workers over ioredis. */

import type { Cluster, Redis } from "ioredis";
import {
  differenceMs, dueMs, flagOf, leaseOf, listOf, optionsOf, reasonOf, signalOf, spanMs, topicsOf, wholeOf, shown,
  type Time,
} from "./arguments.js";
import { Calls, type Arg, type Item } from "./calls.js";
import { connect, connectionsOf, end, type Place } from "./connections.js";
import { Deliveries, type DeliveriesOptions } from "./deliveries.js";
import { releaseArgs, settleItem, type Delivery, type Receipt, type ReleaseOptions } from "./delivery.js";
import { ROUNDS, type Waits } from "./durability.js";
import { Gatherer } from "./gather.js";
import { Group } from "./group.js";
import { dueOf, envelopeOf, putOptions, type Message } from "./message.js";
import { generateBytes, idText, inGroup, InvalidMessage, isGenerated, name, newId, placesOf, storedId, topicArg } from "./names.js";
import { Ordering, orderOf, orderOfReceipt } from "./ordering.js";
import type { Outcome, Verb, Words } from "./outcome.js";
import { Restorer } from "./payload.js";
import { DEFAULT_MAX_PAYLOAD_BYTES, DEFAULT_NAMESPACE, MAX_IDS_A_CALL, MAX_PAYLOAD_BYTES, MAX_TIMEOUT_MS } from "./protocol.js";
import { Pumping } from "./pumping.js";
import { Reserver } from "./reserving.js";
import { Several, type RedisNode } from "./several.js";
import { storedOf, type Stored } from "./stored.js";
import { Topic } from "./topic.js";

/**
 * `timeoutMs` is the deadline of each Redis call. `confirmTimeoutMs` limits the wait for replicas or disk: at most, and by
 * default, half of `timeoutMs`.
 */
export type ClientOptions = { namespace?: string; maxPayloadBytes?: number; timeoutMs?: number; confirmTimeoutMs?: number };

/** Where a due time is moved to. */
type To = { at: Time } | { afterMs: number } | { byMs: number; expected: Time };

/**
 * A change of a due time: to a time, to a delay from now, or by a difference. `expected` makes the change conditional on the
 * present due time; a difference requires `expected`, so that a repeat moves nothing twice.
 */
export type Change = To & { expected?: Time; pastOk?: boolean };

/**
 * Maximum messages, 1 to 500 (1); lease (the topic's); wait for a first message (0), unless aborted. With `promoteUntil`, delayed
 * messages due until then follow at once, if fewer are ready: the earliest due of all shards, and no more than the call has room
 * for. A call that fails afterwards leaves them ready for every consumer. They are promoted once, before the wait.
 */
export type ReserveOptions = { max?: number; leaseMs?: number; waitMs?: number; promoteUntil?: Time; signal?: AbortSignal };

/** An aborted put is not sent if still queued. */
export type PutOptions = { signal?: AbortSignal };

/** A deployment of delayq. Every verb is safe to repeat; the README explains what a repeat does. */
export class Client {
  private readonly calls: Calls;
  /** Keyed by durability, so that a slow confirmation delays only calls with the same durability. */
  private readonly gatherers = new Map<Waits, Gatherer>();
  private readonly restorer: Restorer;
  private readonly maxPayloadBytes: number;
  private readonly reserver: Reserver;
  private turn = Math.floor(Math.random() * 2 ** 32);
  private readonly writes = new Ordering();
  private readonly given: readonly (Redis | Cluster)[];
  private readonly isOwn: boolean;
  /** The given connection; of several Redises, the first. */
  readonly redis: Redis | Cluster;
  private readonly onEnd = (): void => this.close();

  /**
   * Connects by URL, as `connect` does, or with the options of a given connection: to a Redis, a Sentinel master, a Redis
   * Cluster, or several independent Redises.
   */
  constructor(given: string | Redis | Cluster | readonly RedisNode[], options: ClientOptions = {}) {
    optionsOf("the second argument of Client", options, "namespace maxPayloadBytes timeoutMs confirmTimeoutMs");
    const { namespace = DEFAULT_NAMESPACE, maxPayloadBytes = DEFAULT_MAX_PAYLOAD_BYTES, timeoutMs = 5_000 } = options;
    const { confirmTimeoutMs = timeoutMs } = options;
    const callMs = spanMs("timeoutMs", timeoutMs, 1, MAX_TIMEOUT_MS);
    const confirmMs = spanMs("confirmTimeoutMs", confirmTimeoutMs, 1, MAX_TIMEOUT_MS);
    this.maxPayloadBytes = wholeOf("maxPayloadBytes", maxPayloadBytes, 1, MAX_PAYLOAD_BYTES);
    name("namespace", namespace);
    const place = placeOf(given);
    this.isOwn = typeof given === "string";
    this.given = connectionsOf(place);
    this.redis = this.given[0]!;
    this.calls = new Calls(place, namespace, callMs, confirmMs);
    this.restorer = new Restorer(async (id) => (await this.calls.call("dictionary", 0, [id, ""]))[0]);
    this.reserver = new Reserver(this.calls, (verb, item) => this.single(verb, item), this.writes, this.restorer, this.maxPayloadBytes);
    for (const one of this.given) one.once("end", this.onEnd);
  }

  /**
   * Closes the client's connections; close workers first. The end of the given connection closes the client, too. The given
   * connection stays open, and keeps the process alive until closed.
   */
  close(): void {
    for (const one of this.given) one.off("end", this.onEnd);
    if (this.isOwn) for (const one of this.given) end(one);
    this.reserver.close();
    this.calls.close();
  }

  /** Puts one message, batched with the puts of other callers. */
  async put(message: Message, options: PutOptions = {}): Promise<Outcome<Words["put"]>> {
    const signal = signalOf("signal", optionsOf("put's options", options, "signal").signal);
    signal?.throwIfAborted();
    const item = this.calls.shardsNow > 0 && message?.firstTried === undefined ? this.itemNow(message) : check(message);
    const send = (one: Item) => this.single("put", one, signal);
    const outcome = this.inOrder([message], () => (item ? send(item) : this.item(message).then(send)));
    return signal ? unless(signal, outcome) : outcome;
  }

  /** Puts many messages and returns one outcome per message, in order. */
  async putMany(messages: readonly Message[]): Promise<Outcome<Words["put"]>[]> {
    const turn = ++this.turn;
    for (const one of listOf("messages", messages)) check(one);
    return this.inOrder(messages, async () => this.calls.each("put", await Promise.all(messages.map((one) => this.item(one, turn)))));
  }

  /** Cancels a message. The same own id in another group is another message. */
  async cancel(topic: string, id: string, group?: string): Promise<Outcome<Words["cancel"]>> {
    const item = named(topic, id, group);
    return this.inOrder([{ topic, id }], () => this.single("cancel", item));
  }

  /** Changes the due time of a pending message. */
  async reschedule(topic: string, id: string, change: Change, group?: string): Promise<Outcome<Words["reschedule"]>> {
    optionsOf("a change", change, "at pastOk afterMs byMs expected");
    const { at, pastOk, afterMs, byMs, expected } = change as Record<string, any>;
    if ([at, afterMs, byMs].filter((to) => to !== undefined).length !== 1) {
      throw new InvalidMessage("a change has one of at, afterMs and byMs");
    }
    const isPastOk = flagOf("pastOk", pastOk);
    let due: Arg = "";
    if (at !== undefined) due = dueMs("at", at, isPastOk);
    if (afterMs !== undefined) due = `+${spanMs("afterMs", afterMs)}`;
    if (byMs !== undefined) due = `by ${differenceMs("byMs", byMs) < 0 ? "" : "+"}${byMs}`;
    if (byMs !== undefined && expected === undefined) throw new InvalidMessage("byMs needs expected, so that a repeat moves nothing twice");
    const until = expected === undefined ? undefined : dueMs("expected", expected, isPastOk);
    const item = named(topic, id, group, due, until);
    return this.inOrder([{ topic, id }], () => this.single("reschedule", item));
  }

  /** Returns a message, or the record of a finished message; undefined if Redis has neither. */
  async get(topic: string, id: string, group?: string): Promise<Stored | undefined> {
    const { place, args } = named(topic, id, group);
    for await (const shard of this.calls.places(place as Buffer)) {
      const [, envelope] = await this.calls.call("peek", shard, [topicArg(topic), ...args]);
      if (envelope.length > 0) return this.restorer.shown(storedOf(shard, topic, args[0] as Buffer, envelope));
    }
    return undefined;
  }

  /** Returns a group, such as the messages of a user: those of all topics, or of `topic`. */
  group(group: string, options: { topic?: string } = {}): Group {
    const { topic } = optionsOf("a group", options, "topic");
    return new Group(this.calls, this.writes, this.restorer, name("group", group), topic);
  }

  /** Returns a topic: messages, dead letters and policy. */
  topic(topic: string): Topic {
    return new Topic(this.calls, this.restorer, topic);
  }

  /**
   * Reserves ready messages, in each shard by priority of the topics. With `waitMs`, waits for a first message; all waiting
   * calls share one connection.
   */
  async reserve(topics: readonly string[], options: ReserveOptions = {}): Promise<Delivery[]> {
    optionsOf("reserve's options", options, "max leaseMs waitMs promoteUntil signal");
    const { max = 1, leaseMs, waitMs = 0, promoteUntil, signal } = options;
    const ask = { topics: topicsOf(topics), leaseMs: leaseOf(leaseMs), max: wholeOf("max", max, 1, MAX_IDS_A_CALL) };
    signalOf("signal", signal);
    const waits = spanMs("waitMs", waitMs) > 0;
    if (promoteUntil !== undefined) {
      const found = await this.reserver.reservePromoting(ask, dueMs("promoteUntil", promoteUntil, false));
      if (found.length > 0 || !waits) return found;
    }
    if (!waits) return this.reserver.reserveNow(ask);
    return this.reserver.reserveWhenReady(ask, performance.now() + waitMs, signal);
  }

  /** Iterates over messages as they become ready (`for await`), and extends each lease until settlement. */
  deliveries(topics: string | readonly string[], options: DeliveriesOptions = {}): Deliveries {
    return new Deliveries(this.reserver, topicsOf(typeof topics === "string" ? [topics] : topics), options);
  }

  /** @internal Pumps the shards until stopped: for a worker. */
  pumping(report: (fault: unknown) => void): Pumping {
    return new Pumping(this.calls, this.reserver, report);
  }

  /** Extends leases from now. */
  async extend(receipts: readonly Receipt[], leaseMs?: number): Promise<Outcome<Words["extend"]>[]> {
    return this.settle("extend", receipts, leaseOf(leaseMs));
  }

  /** Finishes delivered messages. */
  async ack(receipts: readonly Receipt[]): Promise<Outcome<Words["ack"]>[]> {
    return this.settle("ack", receipts);
  }

  /** Returns undelivered messages to the queue, after a delay or the back-off. */
  async release(receipts: readonly Receipt[], options: ReleaseOptions = {}): Promise<Outcome<Words["release"]>[]> {
    return this.settle("release", receipts, ...releaseArgs(options));
  }

  /** Moves undeliverable messages to the dead letters. */
  async bury(receipts: readonly Receipt[], reason: string): Promise<Outcome<Words["bury"]>[]> {
    return this.settle("bury", receipts, reasonOf(reason));
  }

  /** Runs a write after all earlier writes of the same messages, including abandoned writes. */
  private inOrder<T>(messages: readonly { topic: string; id?: string }[], work: () => Promise<T>): Promise<T> {
    const names: string[] = [];
    for (const { topic, id } of messages) if (id !== undefined) names.push(orderOf(topic, id));
    return this.writes.after(names, work);
  }

  /** Runs a verb for one item, batched with the calls of other callers. */
  private single<V extends Verb>(verb: V, item: Item, signal?: AbortSignal, round = 1): Promise<Outcome<Words[V]>> {
    return this.gatherer(this.calls.waitsOf(verb, item)).add(verb, item, signal).catch((fault: unknown) => {
      if (round >= ROUNDS || !this.calls.isLearned(item, fault)) throw fault;
      return this.single(verb, item, signal, round + 1);
    });
  }

  private gatherer(waits: Waits): Gatherer {
    const known = this.gatherers.get(waits);
    if (known) return known;
    const made = new Gatherer((verb, items) => this.calls.carryOut(verb, items, waits), () => this.calls.shardsNow);
    this.gatherers.set(waits, made);
    return made;
  }

  private settle<V extends "extend" | "ack" | "release" | "bury">(verb: V, receipts: readonly Receipt[], ...args: Arg[]) {
    const items = listOf("receipts", receipts).map((receipt) => settleItem(receipt, ...args));
    const order = verb === "extend" ? [] : receipts.map(orderOfReceipt);
    return this.writes.after(order, () => this.calls.each(verb, items));
  }

  /** Encodes a put once the shards are known. The first attempt of a repeat is told on the clock of its shard. */
  private async item(message: Message, turn?: number): Promise<Item> {
    await this.calls.shards();
    const item = this.itemNow(message, turn);
    if (message.firstTried === undefined) return item;
    item.args[2] = putOptions(message, await this.aheadMs(this.calls.placesNow(item.place as Buffer)[0]!));
    return item;
  }

  /**
   * Encodes a put. Generated ids go to the shards in turn, or to the shard of the group; those of a batch share a turn. No
   * object is spread here: that would cost each put a microsecond.
   */
  private itemNow(message: Message, turn?: number): Item {
    const due = dueOf(message);
    const options = putOptions(message, 0);
    const topic = name("topic", message.topic);
    const { group } = message;
    const places = group === undefined ? undefined : this.calls.placesNow(Buffer.from(name("group", group)));
    const own = message.id === undefined ? generateBytes(places?.[0] ?? this.turnOf(topic, turn)) : newId(message.id);
    const id = message.id ?? idText(own);
    const raw = inGroup(own, group);
    if (places && isGenerated(raw) && !places.includes(placesOf(raw, [])[0]!)) {
      throw new InvalidMessage(`${id} was generated for another shard than its group's`);
    }
    const envelope = envelopeOf(message, !isGenerated(raw), this.maxPayloadBytes);
    const item = itemOf(raw, topic, id, group, [due, options, envelope]);
    item.bytes = envelope.length;
    return item;
  }

  private turnOf(topic: string, turn = this.gatherer(this.calls.waitsOf("put", { topic: [topic] })).batch): number {
    return turn % this.calls.shardsNow;
  }

  /** Returns how far the Redis clock of a shard is ahead of the local clock, rounded up. */
  private async aheadMs(shard: number): Promise<number> {
    const askedMs = Date.now();
    const [nowUs] = await this.calls.call("overview", shard, [0]);
    return Math.ceil(nowUs / 1000) - askedMs;
  }
}

/** Checks the fields that determine place and order. */
function check(message: Message): undefined {
  dueOf(message);
  putOptions(message, 0);
  name("topic", message.topic);
  if (message.id !== undefined) newId(message.id);
}

function placeOf(given: string | Redis | Cluster | readonly RedisNode[]): Place {
  if (typeof given === "string") return connect(given);
  if (Array.isArray(given)) return Several.of(given);
  if (typeof (given as Redis)?.duplicate === "function") return given as Redis | Cluster;
  throw new InvalidMessage(`the first argument of Client is a URL, a connection of ioredis or a list of nodes, not ${shown(given)}`);
}

/** Returns the result, or rejects when the signal is aborted. */
function unless<T>(signal: AbortSignal, result: Promise<T>): Promise<T> {
  result.catch(() => undefined);
  return new Promise<T>((resolve, reject) => {
    const giveUp = (): void => reject(signal.reason);
    signal.addEventListener("abort", giveUp, { once: true });
    result.then(resolve, reject).finally(() => signal.removeEventListener("abort", giveUp));
  });
}

/** Returns an item for a message. A generated id names the shard; an own id is placed by group, or by itself. */
function named(topic: string, id: string, group: string | undefined, ...args: Arg[]): Item {
  return itemOf(storedId(id, group), topicArg(topic), id, group, args);
}

function itemOf(stored: Buffer, topic: Arg, id: string, group: string | undefined, args: Arg[]): Item {
  const place = group === undefined || isGenerated(stored) ? stored : Buffer.from(group);
  return { place, topic: [topic], args: [stored, ...args], id, bytes: 0 };
}
