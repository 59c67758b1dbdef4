/** The client: what a producer and a worker do with messages, over ioredis. */

import type { Redis } from "ioredis";
import { Calls, type Arg, type Item } from "./calls.js";
import { leases, readEnvelope, type Delivery, type Lease, type Receipt } from "./delivery.js";
import { listen, type Hear } from "./listener.js";
import { envelopeOf, MAX_PAYLOAD_BYTES, optionsOf, type Message } from "./message.js";
import { generateId, idBytes, idText, InvalidMessage, isGenerated, name, placesOf } from "./names.js";
import { parseOutcome, type Outcome, type Put } from "./outcome.js";
import { restore } from "./payload.js";

/**
 * A change of a due time: to a time, a delay from now, or by a difference. With `expectedMs` it is carried out only where
 * the message is due then until now; a difference needs it, so that a repeat moves nothing twice.
 */
export type Change = { atMs: number; expectedMs?: number } | { afterMs: number; expectedMs?: number } | { byMs: number; expectedMs: number };

/** At most how many messages, 1 to 500 (1); for how long (as the topic says); how long to wait where there is none (0). */
export type ReserveOptions = { most?: number | undefined; leaseMs?: number | undefined; waitMs?: number | undefined };

/** After a delay or by their back-off; whether the attempt does not count; the reason, for the dead letters. */
export type ReleaseOptions = { delayMs?: number | undefined; keepAttempt?: boolean | undefined; reason?: string | undefined };

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
  async put(message: Message): Promise<Put> {
    return (await this.putMany([message]))[0]!;
  }

  /** Puts many messages: one answer each, in order. */
  async putMany(messages: readonly Message[]): Promise<Put[]> {
    const place = ++this.turn % (await this.learn());
    const aheadMs = messages.some(({ firstTriedMs }) => firstTriedMs !== undefined) ? await this.aheadMs() : 0;
    const items = messages.map((message) => this.item(message, place, aheadMs));
    return (await this.each("put", items)).map(([text, shard, nowUs], i) => {
      const { atMs, afterMs = 0 } = messages[i]!;
      const dueMs = atMs ?? Math.floor(Number(nowUs) / 1000) + afterMs;
      const outcome = parseOutcome(["stored", "ready"].includes(text) ? `${text} ${dueMs}` : text);
      const accepted = ["stored", "ready", "exists"].includes(outcome.word);
      return { ...outcome, id: idText(items[i]!.args[0] as Buffer), shard, accepted };
    });
  }

  /** Keeps a message from being delivered. An own id that was put with a group is found by both. */
  async cancel(topic: string, id: string, group?: string): Promise<Outcome> {
    return (await this.outcomes("cancel", [item(topic, id, group, [])]))[0]!;
  }

  /** Changes when a pending message is due. */
  async reschedule(topic: string, id: string, change: Change, group?: string): Promise<Outcome> {
    const { atMs, afterMs, byMs, expectedMs } = change as Record<string, number | undefined>;
    const by = byMs !== undefined && `by ${byMs < 0 ? "" : "+"}${byMs}`;
    const due = by || (atMs ?? `+${afterMs}`);
    return (await this.outcomes("reschedule", [item(topic, id, group, [due, expectedMs])]))[0]!;
  }

  /**
   * Takes ready messages under a lease, from the first topic that has any: those of the first shard that has any,
   * beginning one further each time.
   */
  async reserve(topics: readonly string[], { most = 1, leaseMs, waitMs = 0 }: ReserveOptions = {}): Promise<Delivery[]> {
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
          const reply = await this.one("reserve", shard, args);
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
  release(receipts: readonly Receipt[], { delayMs, keepAttempt, reason }: ReleaseOptions = {}): Promise<Outcome[]> {
    return this.settle("release", receipts, delayMs, keepAttempt ? "keep" : "", reason);
  }

  /** Moves messages that can never be delivered to the dead letters. */
  bury(receipts: readonly Receipt[], reason: string): Promise<Outcome[]> {
    return this.settle("bury", receipts, reason);
  }

  /** What a put says of a message. Generated ids go to the shards in turn, put by put, or to their groups'. */
  private item(message: Message, place: number, aheadMs: number): Item {
    const { topic, group, atMs, afterMs = 0 } = message;
    const places = placesOf(group === undefined ? place : Buffer.from(group), this.counts);
    const id = message.id ?? generateId(places[0]!);
    const generated = isGenerated(idBytes(id));
    if (group !== undefined && generated && !places.includes(placesOf(idBytes(id), [])[0]!)) {
      throw new InvalidMessage(`${id} was generated for another shard than its group's`);
    }
    const envelope = envelopeOf(message, !generated, this.mostPayloadBytes);
    return item(topic, id, group, [atMs ?? `+${afterMs}`, optionsOf(message, aheadMs), envelope]);
  }

  /** How far Redis's clock is ahead of this host's: a little too far, rather than not far enough. */
  private async aheadMs(): Promise<number> {
    const askedMs = Date.now();
    const [seconds, us] = await this.redis.time();
    return Number(seconds) * 1000 + Math.ceil(Number(us) / 1000) - askedMs;
  }

  private async outcomes(verb: string, items: readonly Item[]): Promise<Outcome[]> {
    return (await this.each(verb, items)).map(([text]) => parseOutcome(text));
  }

  private settle(verb: string, receipts: readonly Receipt[], ...args: Arg[]): Promise<Outcome[]> {
    return this.outcomes(verb, receipts.map(({ shard, raw }) => ({ place: shard, topic: [], args: [raw, ...args] })));
  }

  /** Reads envelopes, and buries those that nobody can read: they keep no other message from being delivered. */
  private async readable(all: [Lease, Buffer][]): Promise<Delivery[]> {
    const found: Delivery[] = [];
    for (const [lease, stored] of all) {
      try {
        const { compressed, ...message } = readEnvelope(stored);
        if (compressed) message.payload = await restore(message.payload, (id) => this.dictionary(id));
        found.push({ ...lease, ...message });
      } catch (fault) {
        if (!(fault instanceof InvalidMessage)) {
          await this.release(all.map(([one]) => one.receipt), { delayMs: 1000, keepAttempt: true }); // others can read it
          throw fault;
        }
        await this.bury([lease.receipt], fault.message);
      }
    }
    return found;
  }

  private async dictionary(id: number): Promise<Buffer> {
    if (!this.dictionaries.has(id)) this.dictionaries.set(id, (await this.one("dictionary", 0, [id, ""]))[0]);
    return this.dictionaries.get(id)!;
  }
}

/** What is said of a message by its name. A generated id says its shard, an own one goes by its group, or itself. */
function item(topic: string, id: string, group: string | undefined, args: Arg[]): Item {
  const raw = idBytes(id);
  const place = group === undefined || isGenerated(raw) ? raw : Buffer.from(name("group", group));
  return { place, topic: [name("topic", topic)], args: [raw, ...args] };
}
