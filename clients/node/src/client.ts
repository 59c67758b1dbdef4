/** The client: what a producer and a worker do with messages, over ioredis. */

import type { Redis } from "ioredis";
import { Calls, type Arg, type Item } from "./calls.js";
import { leases, readEnvelope, type Delivery, type Lease, type Receipt } from "./delivery.js";
import { listen, type Hear } from "./listener.js";
import { envelopeOf, MAX_PAYLOAD_BYTES, optionsOf, type Message } from "./message.js";
import { generateId, idBytes, InvalidMessage, isGenerated, name, placesOf } from "./names.js";
import type { Outcome } from "./outcome.js";
import { restore } from "./payload.js";

type To = { atMs: number } | { afterMs: number } | { byMs: number; expectedMs: number };

/**
 * A change of a due time: to a time, a delay from now, or by a difference. With `expectedMs` only where the
 * message is due then until now; a difference needs it, so that a repeat moves nothing twice.
 */
export type Change = To & { expectedMs?: number };

/** How many messages, 1 to 500 (1); for how long (as the topic says); how long to wait for one (0). */
export type ReserveOptions = { most?: number; leaseMs?: number; waitMs?: number };

/** After a delay, or by their back-off; whether the attempt does not count; a reason for the dead letters. */
export type ReleaseOptions = { delayMs?: number; keepAttempt?: boolean; reason?: string };

/** A deployment of delayq. All verbs are safe to repeat; see the README for what a repeat does. */
export class Client extends Calls {
  /** How often a reserve that waits looks without having been woken. */
  static lookMs = 1000;
  private readonly dictionaries = new Map<number, Buffer>();
  private readonly mostPayloadBytes: number;
  private turn = Math.floor(Math.random() * 2 ** 32);

  constructor(redis: Redis, { namespace = "dq", mostPayloadBytes = 262144 } = {}) {
    super(redis, namespace);
    this.mostPayloadBytes = Math.min(mostPayloadBytes, MAX_PAYLOAD_BYTES);
  }

  /** Puts one message. */
  async put(message: Message): Promise<Outcome> {
    return (await this.putMany([message]))[0]!;
  }

  /** Puts many messages: one outcome each, in order. */
  async putMany(messages: readonly Message[]): Promise<Outcome[]> {
    const place = ++this.turn % (await this.learn());
    const aheadMs = messages.some(({ firstTriedMs }) => firstTriedMs) ? await this.aheadMs() : 0;
    return this.each("put", messages.map((message) => this.item(message, place, aheadMs)));
  }

  /** Keeps a message from being delivered. An own id that was put with a group is found by both. */
  async cancel(topic: string, id: string, group?: string): Promise<Outcome> {
    return (await this.each("cancel", [item(topic, id, group)]))[0]!;
  }

  /** Changes when a pending message is due. */
  async reschedule(topic: string, id: string, change: Change, group?: string): Promise<Outcome> {
    const { atMs, afterMs, byMs, expectedMs } = change as Record<string, number | undefined>;
    const due = byMs === undefined ? (atMs ?? `+${afterMs}`) : `by ${byMs < 0 ? "" : "+"}${byMs}`;
    return (await this.each("reschedule", [item(topic, id, group, due, expectedMs)]))[0]!;
  }

  /**
   * Takes ready messages under a lease, from the first topic that has any: those of the first shard that has
   * any, beginning one further each time.
   */
  async reserve(topics: readonly string[], options: ReserveOptions = {}): Promise<Delivery[]> {
    const { most = 1, leaseMs, waitMs = 0 } = options;
    const args = [most, 0, leaseMs, ...topics.map((topic) => name("topic", topic))];
    const until = performance.now() + waitMs;
    const first = ++this.turn;
    let connection: Redis | undefined;
    let hear: Hear | undefined;
    let heard: number | undefined;
    try {
      for (;;) {
        const shards = await this.learn();
        let backMs = Client.lookMs;
        for (let asked = 0; asked < (heard === undefined ? shards : 1); asked++) {
          const shard = heard ?? (first + asked) % shards;
          const reply = await this.call("reserve", shard, args);
          const found = await this.readable([...leases(shard, topics, reply.slice(6))]);
          if (found.length > 0) return found;
          if (typeof reply[1] === "number") backMs = Math.min(backMs, reply[1]);
        }
        const left = until - performance.now();
        if (left <= 0) return [];
        connection ??= this.redis.duplicate();
        hear ??= await listen(connection, this.namespace, shards);
        heard = await hear(Math.min(left, backMs));
      }
    } finally {
      connection?.disconnect();
    }
  }

  /** Gives leases more time, from now. */
  extend(receipts: readonly Receipt[], leaseMs?: number): Promise<Outcome[]> {
    return this.settle("extend", receipts, leaseMs);
  }

  /** Ends messages that were delivered. */
  ack(receipts: readonly Receipt[]): Promise<Outcome[]> {
    return this.settle("ack", receipts);
  }

  /** Gives messages back that were not delivered: after a delay, or by their back-off. */
  release(receipts: readonly Receipt[], options: ReleaseOptions = {}): Promise<Outcome[]> {
    const { delayMs, keepAttempt, reason } = options;
    return this.settle("release", receipts, delayMs, keepAttempt ? "keep" : "", reason);
  }

  /** Moves messages that can never be delivered to the dead letters. */
  bury(receipts: readonly Receipt[], reason: string): Promise<Outcome[]> {
    return this.settle("bury", receipts, reason);
  }

  /** What a put says of a message. Generated ids go to the shards in turn, or to their group's. */
  private item(message: Message, place: number, aheadMs: number): Item {
    const { topic, group, atMs, afterMs = 0 } = message;
    const places = placesOf(group === undefined ? place : Buffer.from(group), this.counts);
    const id = message.id ?? generateId(places[0]!);
    const generated = isGenerated(idBytes(id));
    if (group !== undefined && generated && !places.includes(placesOf(idBytes(id), [])[0]!)) {
      throw new InvalidMessage(`${id} was generated for another shard than its group's`);
    }
    const envelope = envelopeOf(message, !generated, this.mostPayloadBytes);
    const args = [atMs ?? `+${afterMs}`, optionsOf(message, aheadMs), envelope];
    return { ...item(topic, id, group, ...args), bytes: envelope.length };
  }

  /** How far Redis's clock is ahead of this host's: a little too far, rather than not far enough. */
  private async aheadMs(): Promise<number> {
    const askedMs = Date.now();
    const [seconds, us] = await this.redis.time();
    return Number(seconds) * 1000 + Math.ceil(Number(us) / 1000) - askedMs;
  }

  private settle(verb: string, receipts: readonly Receipt[], ...args: Arg[]): Promise<Outcome[]> {
    const items = receipts.map(({ shard, raw }) => ({ place: shard, topic: [], args: [raw, ...args] }));
    return this.each(verb, items);
  }

  /** Reads envelopes, and buries those that nobody can read: they keep no other from being delivered. */
  private async readable(all: [Lease, Buffer][]): Promise<Delivery[]> {
    const found: Delivery[] = [];
    for (const [lease, stored] of all) {
      try {
        const { compressed, ...message } = readEnvelope(stored);
        if (compressed) message.payload = await restore(message.payload, (id) => this.dictionary(id));
        found.push({ ...lease, ...message });
      } catch (fault) {
        if (!(fault instanceof InvalidMessage)) {
          // Others may be able to read it.
          await this.release(all.map(([one]) => one.receipt), { delayMs: 1000, keepAttempt: true });
          throw fault;
        }
        await this.bury([lease.receipt], fault.message);
      }
    }
    return found;
  }

  private async dictionary(id: number): Promise<Buffer> {
    const found = this.dictionaries.get(id) ?? (await this.call("dictionary", 0, [id, ""]))[0];
    this.dictionaries.set(id, found);
    return found;
  }
}

/** What is said of a message by name. A generated id has its shard, an own one goes by group, or itself. */
function item(topic: string, id: string, group: string | undefined, ...args: Arg[]): Item {
  const raw = idBytes(id);
  const place = group === undefined || isGenerated(raw) ? raw : Buffer.from(name("group", group));
  return { place, topic: [name("topic", topic)], args: [raw, ...args], id };
}
