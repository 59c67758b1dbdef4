/** A stream of messages as they become ready, whose leases are kept alive until they are settled. */

import { setTimeout as sleep } from "node:timers/promises";
import { inspect } from "node:util";
import { functionOf, leaseOf, LONGEST_TIMER_MS, optionsOf, spanMs, wholeOf } from "./arguments.js";
import type { Delivery } from "./delivery.js";
import { ClosedError } from "./outcome.js";
import type { Reserver } from "./reserving.js";

/** How long to rest after Redis could not be used, at first and at most. */
const [REST_MS, MAX_REST_MS] = [200, 500];

export interface DeliveriesOptions {
  /** The most messages that are handed out and not settled: 1 to 500, 10 unless it is given. */
  concurrency?: number;
  /** How long a lease lasts unless it is extended, which it is at each third of it; as the topic says. */
  leaseMs?: number;
  /** Called with what went wrong, and the message where it was one; logs it unless it is given. */
  onError?: (fault: unknown, delivery?: Delivery) => void;
}

const FIELDS = "concurrency leaseMs onError";

/** Survives outages of Redis; ends by `break` or `stop`. */
export class Deliveries implements AsyncIterableIterator<Delivery> {
  private readonly concurrency: number;
  private readonly leaseMs: number | undefined;
  private readonly onError: NonNullable<DeliveriesOptions["onError"]>;
  private readonly held = new Set<Delivery>();
  private readonly stopping = new AbortController();
  private unstarted: Delivery[] = [];
  private turn: Promise<unknown> = Promise.resolve();

  constructor(private readonly reserver: Reserver, private readonly topics: readonly string[], options: DeliveriesOptions) {
    const { concurrency = 10, leaseMs, onError = logged } = optionsOf("the options", options, FIELDS);
    this.concurrency = wholeOf("concurrency", concurrency, 1, 500);
    this.leaseMs = leaseOf(leaseMs);
    this.onError = quiet(functionOf("onError", onError));
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** The next message, once fewer than the concurrency are held. */
  next(): Promise<IteratorResult<Delivery, undefined>> {
    const next = this.turn.then(() => this.advance());
    this.turn = next.catch(() => undefined);
    return next;
  }

  /** Stops and gives back what is held, as `break` does; no attempt counts. */
  async return(): Promise<IteratorResult<Delivery, undefined>> {
    await this.stop(0);
    return { done: true, value: undefined };
  }

  /**
   * Gives back what was not handed out, waits until the rest is settled, and gives that back after `timeoutMs`, or at once when
   * `hurry` is aborted. No attempt counts: a stop is not the message's fault.
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
    for (const one of late) one.leave("given back, since the worker stops");
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

  /** Reserves as many as may be held, and keeps their leases alive. */
  private async fetch(): Promise<void> {
    const { topics, leaseMs, stopping } = this;
    const max = this.concurrency - this.held.size;
    if (max <= 0) return this.oneDone();
    this.unstarted = await this.reserver.reserveWhenReady({ topics, leaseMs, max }, Infinity, stopping.signal);
    for (const one of this.unstarted) {
      this.held.add(one);
      void one.keepAlive(leaseMs);
      void one.done.then(() => this.held.delete(one));
    }
  }

  /** Waits until one of those that are held is settled, or for so long, or until it is stopped or hurried. */
  private async oneDone(timeoutMs?: number, hurry = this.stopping.signal): Promise<void> {
    const waits: Promise<unknown>[] = [...this.held].map(({ done }) => done);
    const over = new AbortController();
    if (timeoutMs !== undefined) waits.push(sleep(timeoutMs, undefined, { signal: over.signal }).catch(() => undefined));
    if (!hurry.aborted) waits.push(new Promise((resolve) => hurry.addEventListener("abort", resolve, { signal: over.signal })));
    await Promise.race(waits);
    over.abort();
  }
}

/**
 * Releases deliveries, whose attempts do not count. Those that Redis does not answer for within a second come again when their
 * leases run out.
 */
async function giveBack(held: readonly Delivery[]): Promise<void> {
  const over = new AbortController();
  const released = Promise.allSettled(held.map((one) => one.release({ delayMs: 0, keepAttempt: true })));
  await Promise.race([released, sleep(1_000, undefined, { signal: over.signal }).catch(() => undefined)]);
  over.abort();
}

/** The default of `onError`: with the stack. */
export function logged(fault: unknown, delivery?: Delivery): void {
  console.error(`delayq${delivery ? `: ${delivery.topic} ${delivery.id}` : ""}: ${inspect(fault)}`);
}

/** Guards a report against exceptions, so that it cannot end a worker. */
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
