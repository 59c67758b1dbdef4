/** The client: what a producer and a worker do with messages, over ioredis. */

import type { Cluster, Redis } from "ioredis";
import { countOf, dueMs, leaseOf, listOf, optionsOf, spanMs, timeMs, topicsOf, type Time } from "./arguments.js";
import { Calls, type Arg, type Item } from "./calls.js";
import { connectionsOf } from "./connections.js";
import { Deliveries, type DeliveriesOptions } from "./deliveries.js";
import { releaseArgs, settleItem, type Delivery, type Receipt, type ReleaseOptions } from "./delivery.js";
import { ROUNDS, type Waits } from "./durability.js";
import { Gatherer } from "./gather.js";
import { Group } from "./group.js";
import { dueOf, envelopeOf, MAX_PAYLOAD_BYTES, putOptions, type Message } from "./message.js";
import { generateId, idBytes, InvalidMessage, isGenerated, name, placesOf } from "./names.js";
import type { Outcome, Verb, Words } from "./outcome.js";
import { Restorer } from "./payload.js";
import { Reserver } from "./reserving.js";
import { Several, type RedisNode } from "./several.js";
import { storedOf, type Stored } from "./stored.js";
import { Topic } from "./topic.js";

/**
 * `timeoutMs` is the deadline of each call of Redis; `confirmTimeoutMs` how long replicas or a disk have to confirm a write
 * whose topic asks for it: at most, and unless given, half of `timeoutMs`.
 */
export type ClientOptions = { namespace?: string; maxPayloadBytes?: number; timeoutMs?: number; confirmTimeoutMs?: number };

/** Where a due time is moved to. */
type To = { at: Time; pastOk?: boolean } | { afterMs: number } | { byMs: number; expected: Time };

/**
 * A change of a due time: to a time, a delay from now, or by a difference. With `expected` only where the message is
 * due then until now; a difference needs it, so that a repeat moves nothing twice.
 */
export type Change = To & { expected?: Time };

/** How many messages, 1 to 500 (1); for how long (as the topic says); how long to wait for one (0), unless aborted. */
export type ReserveOptions = { max?: number; leaseMs?: number; waitMs?: number; signal?: AbortSignal };

/** A deployment of delayq. All verbs are safe to repeat; see the README for what a repeat does. */
export class Client {
  private readonly calls: Calls;
  /** By what is waited for, so that nobody is held up by what others wait for. */
  private readonly gatherers = new Map<Waits, Gatherer>();
  private readonly restorer: Restorer;
  private readonly maxPayloadBytes: number;
  private readonly reserver: Reserver;
  private turn = Math.floor(Math.random() * 2 ** 32);
  private readonly given: readonly (Redis | Cluster)[];
  /** The connection that was given; of several Redises, the first one's. */
  readonly redis: Redis | Cluster;
  private readonly onEnd = (): void => this.close();

  /**
   * Over connections of its own, made like the given one: to a Redis, a Sentinel's master or a Redis Cluster; or like those of
   * several independent Redises.
   */
  constructor(given: Redis | Cluster | readonly RedisNode[], options: ClientOptions = {}) {
    optionsOf("the second argument of Client", options, "namespace maxPayloadBytes timeoutMs confirmTimeoutMs");
    const { namespace = "dq", maxPayloadBytes = 262_144, timeoutMs = 5_000, confirmTimeoutMs = timeoutMs } = options;
    const [callMs, confirmMs] = [spanMs("timeoutMs", timeoutMs, 1), spanMs("confirmTimeoutMs", confirmTimeoutMs, 1)];
    const place = isNodes(given) ? Several.of(given) : given;
    this.given = connectionsOf(place);
    this.redis = this.given[0]!;
    this.calls = new Calls(place, namespace, callMs, confirmMs);
    this.restorer = new Restorer(async (id) => (await this.calls.call("dictionary", 0, [id, ""]))[0]);
    this.reserver = new Reserver(this.calls, this.gatherer(""), this.restorer);
    this.maxPayloadBytes = Math.min(maxPayloadBytes, MAX_PAYLOAD_BYTES);
    for (const one of this.given) one.once("end", this.onEnd);
  }

  /** Closes its connections; close workers first. Closing the given connection, which stays open, does the same. */
  close(): void {
    for (const one of this.given) one.off("end", this.onEnd);
    this.reserver.close();
    this.calls.close();
  }

  /** Puts one message. Those of many callers go together. */
  async put(message: Message): Promise<Outcome<Words["put"]>> {
    const { batch } = this.gatherer(this.calls.waitsOf("put", { topic: [message.topic] }));
    return this.single("put", await this.item(message, batch));
  }

  /** Puts many messages: one outcome each, in order. */
  async putMany(messages: readonly Message[]): Promise<Outcome<Words["put"]>[]> {
    const turn = ++this.turn;
    return this.calls.each("put", await Promise.all(listOf("messages", messages).map((one) => this.item(one, turn))));
  }

  /** Cancels a message. An own id that was put with a group is found by both. */
  async cancel(topic: string, id: string, group?: string): Promise<Outcome<Words["cancel"]>> {
    return this.single("cancel", named(topic, id, group));
  }

  /** Changes when a pending message is due. */
  async reschedule(topic: string, id: string, change: Change, group?: string): Promise<Outcome<Words["reschedule"]>> {
    optionsOf("a change", change, "at pastOk afterMs byMs expected");
    const { at, pastOk, afterMs, byMs, expected } = change as Record<string, any>;
    if ([at, afterMs, byMs].filter((to) => to !== undefined).length !== 1) {
      throw new InvalidMessage("a change has one of at, afterMs and byMs");
    }
    if (byMs !== undefined && !Number.isSafeInteger(byMs)) throw new InvalidMessage(`byMs is ${byMs}: whole milliseconds`);
    let due: Arg = `by ${byMs < 0 ? "" : "+"}${byMs}`;
    if (at !== undefined) due = dueMs("at", at, pastOk);
    if (afterMs !== undefined) due = `+${spanMs("afterMs", afterMs)}`;
    const until = expected === undefined ? undefined : timeMs("expected", expected);
    return this.single("reschedule", named(topic, id, group, due, until));
  }

  /** A message, or what is remembered of it; undefined where nothing is known. */
  async get(topic: string, id: string, group?: string): Promise<Stored | undefined> {
    const { place, args } = named(topic, id, group);
    for await (const shard of this.calls.places(place as Buffer)) {
      const [, envelope] = await this.calls.call("peek", shard, [topic, ...args]);
      if (envelope.length > 0) return this.restorer.shown(storedOf(shard, topic, args[0] as Buffer, envelope));
    }
    return undefined;
  }

  /** Messages of one group, such as those of a user. */
  group(group: string): Group {
    return new Group(this.calls, this.restorer, name("group", group));
  }

  /** Messages of one topic, its dead letters and its policy. */
  topic(topic: string): Topic {
    return new Topic(this.calls, this.restorer, name("topic", topic));
  }

  /**
   * Reserves ready messages: in each shard from the first topic that has any, then from the next. With `waitMs` it waits
   * for some; all waiting calls share one connection.
   */
  async reserve(topics: readonly string[], options: ReserveOptions = {}): Promise<Delivery[]> {
    topicsOf(topics);
    const { max = 1, leaseMs, waitMs = 0, signal } = optionsOf("reserve's options", options, "max leaseMs waitMs signal");
    const ask = { topics, leaseMs: leaseOf(leaseMs), max: countOf("max", max, 500) };
    if (spanMs("waitMs", waitMs) === 0) return this.reserver.reserveNow(ask);
    return this.reserver.reserveWhenReady(ask, performance.now() + waitMs, signal);
  }

  /** Messages as they become ready, whose leases are kept alive until they are settled: for `for await`. */
  deliveries(topics: string | readonly string[], options: DeliveriesOptions = {}): Deliveries {
    return new Deliveries(this.reserver, topicsOf(typeof topics === "string" ? [topics] : topics), options);
  }

  /** Gives leases more time, from now. */
  async extend(receipts: readonly Receipt[], leaseMs?: number): Promise<Outcome<Words["extend"]>[]> {
    return this.settle("extend", receipts, leaseOf(leaseMs));
  }

  /** Ends messages that were delivered. */
  async ack(receipts: readonly Receipt[]): Promise<Outcome<Words["ack"]>[]> {
    return this.settle("ack", receipts);
  }

  /** Gives messages back that were not delivered: after a delay, or by their back-off. */
  async release(receipts: readonly Receipt[], options: ReleaseOptions = {}): Promise<Outcome<Words["release"]>[]> {
    return this.settle("release", receipts, ...releaseArgs(options));
  }

  /** Moves messages that can never be delivered to the dead letters. */
  async bury(receipts: readonly Receipt[], reason: string): Promise<Outcome<Words["bury"]>[]> {
    return this.settle("bury", receipts, reason);
  }

  /** Carries a verb out for one item, with those of other callers that wait for the same. */
  private async single<V extends Verb>(verb: V, item: Item): Promise<Outcome<Words[V]>> {
    for (let round = 1; ; round++) {
      try {
        return await this.gatherer(this.calls.waitsOf(verb, item)).add(verb, item);
      } catch (fault) {
        if (round >= ROUNDS || !this.calls.isLearned(item, fault)) throw fault;
      }
    }
  }

  private gatherer(waits: Waits): Gatherer {
    const known = this.gatherers.get(waits) ?? new Gatherer((verb, items) => this.calls.carryOut(verb, items, waits));
    this.gatherers.set(waits, known);
    return known;
  }

  private settle<V extends "extend" | "ack" | "release" | "bury">(verb: V, receipts: readonly Receipt[], ...args: Arg[]) {
    return this.calls.each(verb, listOf("receipts", receipts).map((receipt) => settleItem(receipt, ...args)));
  }

  /** What a put says of a message. Generated ids go to the shards in turn, or to their group's. */
  private async item(message: Message, turn: number): Promise<Item> {
    const due = dueOf(message);
    const { topic, group } = message;
    const shards = await this.calls.shards();
    const places = group === undefined ? [turn % shards] : this.calls.placesNow(Buffer.from(name("group", group)));
    const id = message.id ?? generateId(places[0]!);
    const item = named(topic, id, group);
    const raw = item.args[0] as Buffer;
    if (group !== undefined && isGenerated(raw) && !places.includes(placesOf(raw, [])[0]!)) {
      throw new InvalidMessage(`${id} was generated for another shard than its group's`);
    }
    const aheadMs = message.firstTried === undefined ? 0 : await this.aheadMs(this.calls.placesNow(item.place as Buffer)[0]!);
    const envelope = envelopeOf(message, !isGenerated(raw), this.maxPayloadBytes);
    return { ...item, args: [raw, due, putOptions(message, aheadMs), envelope], bytes: envelope.length };
  }

  /** How far the clock of a shard's Redis is ahead of this host's: a little too far, rather than not far enough. */
  private async aheadMs(shard: number): Promise<number> {
    const askedMs = Date.now();
    const [nowUs] = await this.calls.call("overview", shard, [0]);
    return Math.ceil(nowUs / 1000) - askedMs;
  }
}

function isNodes(given: Redis | Cluster | readonly RedisNode[]): given is readonly RedisNode[] {
  return Array.isArray(given);
}

/** What is said of a message by name. A generated id has its shard, an own one goes by group, or itself. */
function named(topic: string, id: string, group: string | undefined, ...args: Arg[]): Item {
  const raw = idBytes(id);
  const place = group === undefined || isGenerated(raw) ? raw : Buffer.from(name("group", group));
  return { place, topic: [name("topic", topic)], args: [raw, ...args], id };
}
