/** An iterator over messages as they become ready, which extends each lease until settlement. */

import { setTimeout as sleep } from "node:timers/promises";
import { inspect } from "node:util";
import { functionOf, leaseOf, LONGEST_TIMER_MS, optionsOf, spanMs, wholeOf } from "./arguments.js";
import type { Delivery } from "./delivery.js";
import { ClosedError } from "./outcome.js";
import { DEFAULT_CONCURRENCY, MAX_CONCURRENCY, MAX_IDS_A_CALL } from "./protocol.js";
import type { Reserver } from "./reserving.js";

/** Pauses while Redis is unavailable, first and longest. */
const [REST_MS, MAX_REST_MS] = [200, 500];

export interface DeliveriesOptions {
  /** Maximum unsettled messages: 1 to 10,000, 10 by default. */
  concurrency?: number;
  /** Length of a lease, extended every third of the length; the topic's lease by default. */
  leaseMs?: number;
  /** Receives errors, with the message concerned if there is one; logs errors by default. */
  onError?: (fault: unknown, delivery?: Delivery) => void;
}

const FIELDS = "concurrency leaseMs onError";

/** Continues across outages of Redis; ends by `break` or `stop`. */
export class Deliveries implements AsyncIterableIterator<Delivery> {
  private readonly concurrency: number;
  private readonly leaseMs: number | undefined;
  private readonly onError: NonNullable<DeliveriesOptions["onError"]>;
  private readonly held = new Set<Delivery>();
  private readonly stopping = new AbortController();
  private unstarted: Delivery[] = [];
  private turn: Promise<unknown> = Promise.resolve();
  /** Calls of `next` without a message. */
  private waiting = 0;
  /** Called at each settlement. */
  private readonly told = new Set<() => void>();

  constructor(private readonly reserver: Reserver, private readonly topics: readonly string[], options: DeliveriesOptions) {
    const { concurrency = DEFAULT_CONCURRENCY, leaseMs, onError = logged } = optionsOf("the options", options, FIELDS);
    this.concurrency = wholeOf("concurrency", concurrency, 1, MAX_CONCURRENCY);
    this.leaseMs = leaseOf(leaseMs);
    this.onError = quiet(functionOf("onError", onError));
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** Returns the next message, once fewer than `concurrency` messages are unsettled. */
  next(): Promise<IteratorResult<Delivery, undefined>> {
    if (this.waiting === 0 && this.unstarted.length > 0 && !this.stopping.signal.aborted) {
      return Promise.resolve({ done: false, value: this.unstarted.shift()! });
    }
    this.waiting++;
    const next = this.turn.then(() => this.advance()).finally(() => this.waiting--);
    this.turn = next.catch(() => undefined);
    return next;
  }

  /** Stops and releases unsettled messages with the attempt kept, as `break` does. */
  async return(): Promise<IteratorResult<Delivery, undefined>> {
    await this.stop(0);
    return { done: true, value: undefined };
  }

  /**
   * Releases unstarted messages, waits for settlements, and releases the remaining messages after `timeoutMs`, or at once when
   * `hurry` is aborted. Attempts are kept, since a stop is no failure.
   */
  async stop(timeoutMs: number, hurry?: AbortSignal): Promise<void> {
    spanMs("timeoutMs", timeoutMs, 0, LONGEST_TIMER_MS);
    this.stopping.abort();
    await this.next();
    const deadline = performance.now() + timeoutMs;
    while (this.held.size > 0 && performance.now() < deadline && !hurry?.aborted) {
      await this.oneDone(deadline - performance.now(), hurry);
    }
    const late = [...this.held];
    const released = giveBack(late);
    for (const one of late) one.leave("returned: the worker is stopping");
    await released;
  }

  private async advance(): Promise<IteratorResult<Delivery, undefined>> {
    for (let restMs = REST_MS; !this.stopping.signal.aborted; ) {
      const next = this.unstarted.shift();
      if (next) return { done: false, value: next };
      try {
        await this.fetch();
        restMs = REST_MS;
      } catch (fault) {
        if (fault instanceof ClosedError) throw fault;
        this.onError(fault);
        await sleep(restMs, undefined, { signal: this.stopping.signal }).catch(() => undefined);
        restMs = Math.min(2 * restMs, MAX_REST_MS);
      }
    }
    await giveBack(this.unstarted.splice(0));
    return { done: true, value: undefined };
  }

  /** Reserves up to `concurrency` messages and extends the leases. */
  private async fetch(): Promise<void> {
    const { topics, leaseMs, stopping } = this;
    const max = Math.min(this.concurrency - this.held.size, MAX_IDS_A_CALL);
    if (max <= 0) return this.oneDone();
    this.unstarted = await this.reserver.reserveWhenReady({ topics, leaseMs, max }, Infinity, stopping.signal);
    for (const one of this.unstarted) {
      this.held.add(one);
      one.keepAlive(leaseMs);
      void one.done.then(() => {
        this.held.delete(one);
        for (const tell of this.told) tell();
      });
    }
  }

  /** Waits for a settlement, the timeout, a stop or a hurry. */
  private async oneDone(timeoutMs?: number, hurry = this.stopping.signal): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    let tell = (): void => undefined;
    await new Promise<void>((resolve) => {
      tell = resolve;
      this.told.add(tell);
      hurry.addEventListener("abort", tell);
      if (timeoutMs !== undefined) timer = setTimeout(tell, timeoutMs);
    });
    this.told.delete(tell);
    hurry.removeEventListener("abort", tell);
    clearTimeout(timer);
  }
}

/** Releases deliveries with the attempt kept. Without an answer within a second, messages return when the leases expire. */
async function giveBack(held: readonly Delivery[]): Promise<void> {
  const over = new AbortController();
  const released = Promise.allSettled(held.map((one) => one.release({ delayMs: 0, keepAttempt: true })));
  await Promise.race([released, sleep(1_000, undefined, { signal: over.signal }).catch(() => undefined)]);
  over.abort();
}

/** Logs an error with the stack: the default of `onError`. */
export function logged(fault: unknown, delivery?: Delivery): void {
  console.error(`delayq${delivery ? `: ${delivery.topic} ${delivery.id}` : ""}: ${inspect(fault)}`);
}

/** Protects a worker from exceptions in a report. */
export function quiet(report: (fault: unknown, delivery?: Delivery) => void): typeof report {
  return (fault, delivery) => {
    try {
      report(fault, delivery);
    } catch (thrown) {
      logged(fault, delivery);
      logged(thrown);
    }
  };
}
