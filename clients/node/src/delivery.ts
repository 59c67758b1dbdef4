/** Deliveries: messages under a lease. */

import { setTimeout as sleep } from "node:timers/promises";
import type { Arg, Item } from "./calls.js";
import { flagOf, leaseOf, optionsOf, reasonOf, shown, spanMs } from "./arguments.js";
import { dueOf, envelopeOf, putOptions, type Message } from "./message.js";
import { generateId, idAndGroup, InvalidMessage, isGenerated, name, storedId } from "./names.js";
import { ClosedError, ScriptError, type Outcome, type Words } from "./outcome.js";
import { MAX_ATTEMPTS, MAX_SHARDS } from "./protocol.js";
import type { Envelope } from "./stored.js";

/** The right to settle one delivery of a message. */
export type Receipt = { shard: number; raw: Buffer };

/** A delay instead of the back-off; whether to keep the attempt; a reason for a dead letter. */
export type ReleaseOptions = { delayMs?: number; keepAttempt?: boolean; reason?: string };

export type SettleVerb = "extend" | "ack" | "release" | "bury";
export type SettleOne = <V extends SettleVerb>(verb: V, item: Item) => Promise<Outcome<Words[V]>>;

/** The part of a delivery outside the envelope; times are on the Redis clock. */
export type Lease = { receipt: Receipt; topic: string; id: string; readyUs: number; leaseEndMs: number };

type Fields = Lease & Omit<Envelope, "state" | "atMs" | "backoff" | "doomed" | "blocks" | "held" | "hasSuccessor" | "paused" | "blocked" | "compressed" | "reason">;
/** Fields of the lease and the envelope. */
export interface Delivery extends Fields {}

/** Pause between attempts while Redis is unavailable. */
export const REST_MS = 200;

/**
 * A message under a lease. `attempt` and `delivery` include this delivery; times are on the Redis clock. `ack`, `release` or
 * `bury` settles the message; an unsettled message returns when the lease expires.
 */
export class Delivery {
  /** Resolves on settlement, or when settlement failed until the lease expired. */
  readonly done: Promise<void>;
  /** The message was acked, released or buried here. */
  isSettled = false;
  private finish = (): void => undefined;
  private lost?: AbortController;
  private extension?: NodeJS.Timeout;

  /** The lease lasts `lengthMs`, until `endsAt` on the clock of `performance.now`. */
  constructor(
    lease: Lease,
    envelope: Envelope,
    private readonly settleOne: SettleOne,
    private readonly lengthMs: number,
    private endsAt: number,
    private readonly maxPayloadBytes: number,
  ) {
    const { dueMs, maxAttempts, expiresMs, group, headers, payload } = envelope;
    const [attempt, delivery] = [Math.min(envelope.attempt + 1, MAX_ATTEMPTS), envelope.delivery + 1];
    Object.assign(this, lease, { dueMs, maxAttempts, expiresMs, group, headers, payload, attempt, delivery });
    this.done = new Promise((resolve) => (this.finish = resolve));
  }

  /** Aborted when the lease is lost or the message is cancelled: stop working. */
  get signal(): AbortSignal {
    return this.losing().signal;
  }

  get text(): string {
    return this.payload.toString();
  }

  /** Parses the payload as JSON. */
  json<T = any>(): T {
    return JSON.parse(this.text);
  }

  /**
   * Finishes a delivered message, and puts the next message in the same step: both or neither. The next message has no id, and
   * the group of this message or none; or it has topic, id and group of this message, and takes its place. It is not put if this
   * message was cancelled meanwhile.
   */
  async ack(next?: Message): Promise<Outcome<Words["ack"]>> {
    return this.settle("ack", next === undefined ? settleItem(this.receipt) : nextItem(this, next, this.maxPayloadBytes));
  }

  /** Returns the message to the queue after a delay or the back-off. After the last attempt, the message is dead. */
  async release(options: ReleaseOptions = {}): Promise<Outcome<Words["release"]>> {
    return this.settle("release", settleItem(this.receipt, ...releaseArgs(options)));
  }

  /** Moves an undeliverable message to the dead letters. */
  async bury(reason: string): Promise<Outcome<Words["bury"]>> {
    return this.settle("bury", settleItem(this.receipt, reasonOf(reason)));
  }

  /** Extends the lease from now; without `leaseMs`, by the topic's lease. */
  async extend(leaseMs?: number): Promise<Outcome<Words["extend"]>> {
    const sentAt = performance.now();
    const outcome = await this.settleOne("extend", settleItem(this.receipt, leaseOf(leaseMs)));
    if (outcome.word === "extended") this.endsAt = sentAt + (leaseMs ?? this.lengthMs);
    if (outcome.doomed) this.leave("cancelled");
    if (outcome.word === "expired") this.leave("the lease was lost");
    return outcome;
  }

  /** Aborts the signal. @internal */
  leave(why: string): void {
    this.losing().abort(new Error(`${this.id}: ${why}`));
  }

  /** Made on demand: most handlers ignore the signal. */
  private losing(): AbortController {
    return (this.lost ??= new AbortController());
  }

  /** Extends the lease every third of its length until settlement, loss or close. @internal */
  keepAlive(leaseMs?: number, restMs = this.lengthMs / 3): void {
    if (!this.isSettled) this.extension = setTimeout(() => void this.extendAgain(leaseMs), restMs);
  }

  private async extendAgain(leaseMs?: number): Promise<void> {
    const outcome = await this.extend(leaseMs).catch((fault: unknown) => fault);
    if (outcome instanceof ClosedError) return this.leave("the client is closed");
    const isAnswered = !(outcome instanceof Error);
    if (isAnswered && (outcome as Outcome).word === "expired") return;
    this.keepAlive(leaseMs, isAnswered ? undefined : Math.min(REST_MS, this.lengthMs / 9));
  }

  /** Settles the message. While Redis is unavailable, retries until the lease expires. */
  private async settle<V extends SettleVerb>(verb: V, item: Item): Promise<Outcome<Words[V]>> {
    this.isSettled = true;
    clearTimeout(this.extension);
    try {
      for (;;) {
        try {
          return await this.settleOne(verb, item);
        } catch (fault) {
          if (fault instanceof ScriptError || fault instanceof ClosedError || performance.now() + REST_MS > this.endsAt) throw fault;
          await sleep(REST_MS);
        }
      }
    } finally {
      this.finish();
    }
  }
}

export function releaseArgs(options: ReleaseOptions): Arg[] {
  const { delayMs, keepAttempt, reason = "" } = optionsOf("a release", options, "delayMs keepAttempt reason");
  const delay = delayMs === undefined ? undefined : spanMs("delayMs", delayMs);
  return [delay, flagOf("keepAttempt", keepAttempt) ? "keep" : "", reasonOf(reason)];
}

export function settleItem(receipt: Receipt, ...args: Arg[]): Item {
  const { shard, raw } = optionsOf("a receipt", receipt, "shard raw");
  if (!Number.isInteger(shard) || shard < 0 || shard >= MAX_SHARDS || !Buffer.isBuffer(raw) || raw.length < 6 || !raw.includes(":")) {
    throw new InvalidMessage(`a receipt must come from a reserve, not ${shown(receipt)}`);
  }
  return { place: shard, topic: [], args: [raw, ...args], id: idOf(raw) };
}

/** An ack by the put of the next message, in the shard of the delivery: an item with a topic. */
function nextItem({ receipt, topic, id, group }: Delivery, next: Message, maxPayloadBytes: number): Item {
  const due = dueOf(next);
  if (putOptions(next, 0) !== "") {
    throw new InvalidMessage("a next message replaces only the message before it, and needs no firstTried: the receipt recognises a repeat");
  }
  if (next.id !== undefined && (next.topic !== topic || next.id !== id || next.group !== group)) {
    throw new InvalidMessage("a next message has no id, or the id, the group and the topic of the message before it: put any other message, and then ack");
  }
  if (next.group !== undefined && next.group !== group) {
    throw new InvalidMessage("a next message has the group of the message before it, or none: put a message of another group, and then ack");
  }
  const stored = storedId(next.id ?? generateId(receipt.shard), next.group);
  const envelope = envelopeOf(next, !isGenerated(stored), maxPayloadBytes);
  const args = [stored, due, `ack=${receipt.raw.toString("hex")}`, envelope];
  return { place: receipt.shard, topic: [name("topic", next.topic)], args, id, bytes: envelope.length };
}

function idOf(receipt: Buffer): string {
  return idAndGroup(receipt.subarray(receipt.indexOf(":") + 1, -4)).id;
}

/** Parses the deliveries in the reply of a reserve. */
export function* leases(shard: number, topics: readonly string[], items: any[]): Iterable<[Lease, Buffer]> {
  let at = 0;
  while (at < items.length) {
    const [place, leaseEndMs, count] = [items[at], items[at + 1], items[at + 2]];
    at += 3;
    for (const end = at + 3 * count; at < end; at += 3) {
      const [readyUs, raw, stored] = [items[at], items[at + 1], items[at + 2]];
      yield [{ receipt: { shard, raw }, topic: topics[place - 1]!, id: idOf(raw), readyUs, leaseEndMs }, stored];
    }
  }
}
