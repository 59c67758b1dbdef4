/** A worker calls a handler for each message and settles the message by the result. */

import { constants } from "node:os";
import { inspect } from "node:util";
import { cutReason, flagOf, functionOf, listOf, LONGEST_TIMER_MS, optionsOf, spanMs, wordOf } from "./arguments.js";
import type { Client } from "./client.js";
import { logged, quiet, type Deliveries, type DeliveriesOptions } from "./deliveries.js";
import type { Delivery } from "./delivery.js";
import type { Pumping } from "./pumping.js";

/** Thrown by a handler for an undeliverable message: the message becomes a dead letter, with this reason. */
export class Bury extends Error {
  override name = "Bury";
}

/**
 * Handles one message. A return acks the message and an exception releases the message, unless the handler has settled the
 * delivery.
 */
export type Handler = (delivery: Delivery) => unknown;

export interface WorkerOptions extends DeliveriesOptions {
  /** How long `close` waits for handlers; 10 s by default. */
  closeTimeoutMs?: number;
  /** Pumps due messages too, so that no timer is needed. Workers that pump share the shards, and yield to timers. */
  pump?: boolean;
  /** Signals that close the worker and then end the process; SIGTERM and SIGINT by default. */
  stopOn?: readonly NodeJS.Signals[];
}

/** Minimum age of the first signal for a second signal to count: supervisors signal a process and its group at once. */
const SECOND_SIGNAL_MS = 1_000;
const FIELDS = "concurrency leaseMs onError closeTimeoutMs pump stopOn";
const SIGNALS = (Object.keys(constants.signals) as NodeJS.Signals[]).filter((signal) => !["SIGKILL", "SIGSTOP"].includes(signal));

/** Works until closed, across outages of Redis. */
export class Worker {
  /** Resolves after close; rejects if the worker ended because the client was closed. */
  readonly closed: Promise<void>;
  private readonly deliveries: Deliveries;
  private readonly pumping?: Pumping;
  private readonly closeTimeoutMs: number;
  private readonly signals: readonly NodeJS.Signals[];
  private readonly report: (fault: unknown, delivery?: Delivery) => void;
  private readonly hurry = new AbortController();
  private firstSignalAt = Infinity;
  private closing?: Promise<void>;
  private settle!: { resolve: () => void; reject: (fault: unknown) => void };

  constructor(client: Client, topics: string | readonly string[], private readonly handler: Handler, options: WorkerOptions = {}) {
    functionOf("a worker's third argument, its handler,", handler);
    const { closeTimeoutMs = 10_000, pump, stopOn = ["SIGTERM", "SIGINT"], ...rest } = optionsOf("a worker's options", options, FIELDS);
    this.closeTimeoutMs = spanMs("closeTimeoutMs", closeTimeoutMs, 0, LONGEST_TIMER_MS);
    this.signals = listOf("stopOn", stopOn).map((signal) => wordOf("stopOn", signal, SIGNALS));
    this.report = quiet(rest.onError === undefined ? logged : functionOf("onError", rest.onError));
    const isPumping = flagOf("pump", pump);
    this.deliveries = client.deliveries(topics, { ...rest, onError: this.report });
    if (isPumping) this.pumping = client.pumping(this.report);
    this.closed = new Promise((resolve, reject) => (this.settle = { resolve, reject }));
    this.closed.catch(() => undefined); // it was reported
    for (const signal of this.signals) process.on(signal, this.onSignal);
    this.run().catch((fault: unknown) => this.end(fault));
  }

  /** Stops reserving, waits for handlers, and releases unfinished messages at the deadline. */
  close(): Promise<void> {
    const stopped = (): Promise<unknown> => Promise.all([this.pumping?.stop(), this.deliveries.stop(this.closeTimeoutMs, this.hurry.signal)]);
    this.closing ??= stopped().then(() => undefined).finally(() => {
      for (const signal of this.signals) process.off(signal, this.onSignal);
      this.settle.resolve();
    });
    return this.closing;
  }

  /** The first signal closes the worker; a later signal stops waiting for handlers. */
  private readonly onSignal = (signal: NodeJS.Signals): void => {
    if (performance.now() >= this.firstSignalAt + SECOND_SIGNAL_MS) this.hurry.abort();
    if (this.firstSignalAt < Infinity) return;
    this.firstSignalAt = performance.now();
    void this.close().then(() => {
      // Repeats the signal for its default action, if no other handler is left.
      if (process.listenerCount(signal) === 0) process.kill(process.pid, signal);
    });
  };

  private async run(): Promise<void> {
    for (;;) {
      const next = await this.deliveries.next();
      if (next.done) return;
      void this.work(next.value);
    }
  }

  private async end(fault: unknown): Promise<void> {
    if (this.closing === undefined) this.report(new Error("the worker ended: no more messages are handled", { cause: fault }));
    this.settle.reject(fault);
    await this.close().catch(() => undefined);
  }

  private async work(delivery: Delivery): Promise<void> {
    const failure = await this.handle(delivery);
    if (failure) this.report(failure.thrown, delivery);
    if (delivery.isSettled) return;
    try {
      const settled = await settledBy(delivery, failure);
      if (settled.word === "expired") this.report(new Error("the lease expired before settlement: the message will be delivered again"), delivery);
      if (failure && settled.word === "buried") this.report(new Error(buriedAfter(delivery, failure)), delivery);
      if (settled.word === "failed") this.report(new Error(`cannot settle the message: ${settled.why}`), delivery);
    } catch (lost) {
      this.report(lost, delivery);
    }
  }

  /** Returns the thrown value, or undefined. */
  private async handle(delivery: Delivery): Promise<Failure | undefined> {
    try {
      await this.handler(delivery);
      return undefined;
    } catch (thrown) {
      return { thrown: thrown ?? new Error(`the handler threw ${thrown}, without a reason`) };
    }
  }
}

/** Wraps the thrown value, which may be undefined. */
export type Failure = { thrown: unknown };

export function settledBy(delivery: Delivery, failure: Failure | undefined) {
  if (!failure) return delivery.ack();
  const { thrown } = failure;
  return thrown instanceof Bury ? delivery.bury(cutReason(thrown.message)) : delivery.release({ reason: reasonFor(thrown) });
}

/** Returns the reason of a dead letter: the thrown value with the stack. */
function reasonFor(thrown: unknown): string {
  try {
    return cutReason(inspect(thrown, { depth: 2 }));
  } catch (unshown) {
    return cutReason(`the handler threw a value that cannot be shown: ${unshown}`);
  }
}

function buriedAfter(delivery: Delivery, { thrown }: Failure): string {
  return thrown instanceof Bury
    ? "buried by the handler"
    : `buried after the last attempt, number ${delivery.attempt}`;
}
