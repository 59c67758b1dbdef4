/** What a reserve hands out: messages under lease. */

import { setTimeout as sleep } from "node:timers/promises";
import type { Arg, Item } from "./calls.js";
import { flagOf, leaseOf, optionsOf, reasonOf, shown, spanMs } from "./arguments.js";
import { idAndGroup, InvalidMessage } from "./names.js";
import { ClosedError, ScriptError, type Outcome, type Words } from "./outcome.js";
import { MAX_SHARDS } from "./several.js";
import type { Envelope } from "./stored.js";

/** The right to settle one delivery of one message. */
export type Receipt = { shard: number; raw: Buffer };

/** After a delay, or by the back-off; whether the attempt does not count; a reason for the dead letters. */
export type ReleaseOptions = { delayMs?: number; keepAttempt?: boolean; reason?: string };

export type SettleVerb = "extend" | "ack" | "release" | "bury";
/** Settles one delivery, together with others. */
export type SettleOne = <V extends SettleVerb>(verb: V, item: Item) => Promise<Outcome<Words[V]>>;

/** What a reserve answers about a message besides its envelope; times are on Redis's clock. */
export type Lease = { receipt: Receipt; topic: string; id: string; readyUs: number; leaseEndMs: number };

type Fields = Lease & Omit<Envelope, "state" | "atMs" | "backoff" | "doomed" | "compressed" | "reason">;
/** Its fields are those of its lease and its envelope. */
export interface Delivery extends Fields {}

/** How long to rest between tries while Redis cannot be used. */
export const REST_MS = 200;

/**
 * A message under lease. Its attempt and delivery count this one; times are on Redis's clock. It is settled by `ack`,
 * `release` or `bury`; unsettled, it comes again when its lease runs out.
 */
export class Delivery {
  /** Resolves when it is settled, or could not be until its lease ran out. */
  readonly done: Promise<void>;
  /** Whether it was acked, released or buried here. */
  isSettled = false;
  private finish = (): void => undefined;
  private readonly lost = new AbortController();

  /** Its lease lasts for `lengthMs`, until `endsAt` on the clock of `performance.now`. */
  constructor(
    lease: Lease,
    envelope: Envelope,
    private readonly settleOne: SettleOne,
    private readonly lengthMs: number,
    private endsAt: number,
  ) {
    const { dueMs, maxAttempts, expiresMs, group, headers, payload } = envelope;
    const [attempt, delivery] = [Math.min(envelope.attempt + 1, 65535), envelope.delivery + 1];
    Object.assign(this, lease, { dueMs, maxAttempts, expiresMs, group, headers, payload, attempt, delivery });
    this.done = new Promise((resolve) => (this.finish = resolve));
  }

  /** Aborted when its lease is lost or it is cancelled: the work is better left. */
  get signal(): AbortSignal {
    return this.lost.signal;
  }

  /** The payload as text. */
  get text(): string {
    return this.payload.toString();
  }

  /** The value of a payload that is JSON. */
  json<T = any>(): T {
    return JSON.parse(this.text);
  }

  /** It was delivered: it is over. */
  ack(): Promise<Outcome<Words["ack"]>> {
    return this.settle("ack");
  }

  /** It was not delivered: it comes again after a delay or by its back-off, and is dead after its last attempt. */
  async release(options: ReleaseOptions = {}): Promise<Outcome<Words["release"]>> {
    return this.settle("release", ...releaseArgs(options));
  }

  /** It can never be delivered: it goes to the dead letters. */
  async bury(reason: string): Promise<Outcome<Words["bury"]>> {
    return this.settle("bury", reasonOf(reason));
  }

  /** Gives its lease more time, from now; without `leaseMs` what its topic says. */
  async extend(leaseMs?: number): Promise<Outcome<Words["extend"]>> {
    const sentAt = performance.now();
    const outcome = await this.settleOne("extend", settleItem(this.receipt, leaseOf(leaseMs)));
    if (outcome.word === "extended") this.endsAt = sentAt + (leaseMs ?? this.lengthMs);
    if (outcome.doomed) this.leave("cancelled");
    if (outcome.word === "expired") this.leave("the lease was lost");
    return outcome;
  }

  /** Has the work on it left, by its signal. @internal */
  leave(why: string): void {
    this.lost.abort(new Error(`${this.id}: ${why}`));
  }

  /** Extends its lease at each third of it, until it is settled or lost, or the client is closed. @internal */
  async keepAlive(leaseMs?: number): Promise<void> {
    let restMs = this.lengthMs / 3;
    while (await this.isHeldAfter(restMs)) {
      const outcome = await this.extend(leaseMs).catch((fault: unknown) => fault);
      if (outcome instanceof ClosedError) return this.leave("the client is closed");
      const isAnswered = !(outcome instanceof Error);
      if (isAnswered && (outcome as Outcome).word === "expired") return;
      restMs = isAnswered ? this.lengthMs / 3 : Math.min(REST_MS, this.lengthMs / 9);
    }
  }

  private async isHeldAfter(ms: number): Promise<boolean> {
    let timer: NodeJS.Timeout | undefined;
    await Promise.race([this.done, new Promise((resolve) => (timer = setTimeout(resolve, ms)))]);
    clearTimeout(timer);
    return !this.isSettled;
  }

  /** Settles it. Where Redis cannot be used, it is tried again for as long as the lease lasts. */
  private async settle<V extends SettleVerb>(verb: V, ...args: Arg[]): Promise<Outcome<Words[V]>> {
    this.isSettled = true;
    try {
      for (;;) {
        try {
          return await this.settleOne(verb, settleItem(this.receipt, ...args));
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

/** A receipt in a call. */
export function settleItem(receipt: Receipt, ...args: Arg[]): Item {
  const { shard, raw } = optionsOf("a receipt", receipt, "shard raw");
  if (!Number.isInteger(shard) || shard < 0 || shard >= MAX_SHARDS || !Buffer.isBuffer(raw) || raw.length < 6 || !raw.includes(":")) {
    throw new InvalidMessage(`a receipt is what a reserve gave, not ${shown(receipt)}`);
  }
  return { place: shard, topic: [], args: [raw, ...args], id: idOf(raw) };
}

function idOf(receipt: Buffer): string {
  return idAndGroup(receipt.subarray(receipt.indexOf(":") + 1, -4)).id;
}

/** What a reserve answered behind its numbers: what is said of each lease, and the envelope. */
export function* leases(shard: number, topics: readonly string[], items: any[]): Iterable<[Lease, Buffer]> {
  let at = 0;
  while (at < items.length) {
    const [place, leaseEndMs, count] = items.slice(at, (at += 3));
    for (const end = at + 3 * count; at < end; at += 3) {
      const [readyUs, raw, stored] = items.slice(at, at + 3);
      yield [{ receipt: { shard, raw }, topic: topics[place - 1]!, id: idOf(raw), readyUs, leaseEndMs }, stored];
    }
  }
}
