/** A worker: calls a handler for each message that is due, and settles it by the result. */

import { optionsOf, spanMs } from "./arguments.js";
import type { Client } from "./client.js";
import { logged, type Deliveries, type DeliveriesOptions } from "./deliveries.js";
import type { Delivery } from "./delivery.js";
import { InvalidMessage } from "./names.js";

/** Thrown by a handler for a message that can never be delivered: it goes to the dead letters with this reason. */
export class Bury extends Error {
  override name = "Bury";
}

/** Works on one message, which is acked when this returns and released when it throws, unless it was settled here. */
export type Handler = (delivery: Delivery) => unknown;

export interface WorkerOptions extends DeliveriesOptions {
  /** How long `close` waits for handlers; 10 s by default. */
  closeTimeoutMs?: number;
  /** The signals that close it and then end the process as usual; SIGTERM and SIGINT by default. */
  stopOn?: readonly NodeJS.Signals[];
}

/** Works until it is closed. Outages of Redis only interrupt it. */
export class Worker {
  /** Resolves once it is closed and holds nothing. */
  readonly closed: Promise<void>;
  private readonly deliveries: Deliveries;
  private readonly closeTimeoutMs: number;
  private readonly signals: readonly NodeJS.Signals[];
  private readonly report: (fault: unknown, delivery?: Delivery) => void;
  private closing?: Promise<void>;
  private resolve = (): void => undefined;

  constructor(client: Client, topics: string | readonly string[], private readonly handler: Handler, options: WorkerOptions = {}) {
    if (typeof handler !== "function") throw new InvalidMessage(`a worker's third argument is its handler, not ${handler}`);
    const { closeTimeoutMs = 10_000, stopOn = ["SIGTERM", "SIGINT"], ...rest } = optionsOf("a worker's options", options, FIELDS);
    this.closeTimeoutMs = spanMs("closeTimeoutMs", closeTimeoutMs);
    this.report = rest.onError ?? logged;
    this.deliveries = client.deliveries(topics, { ...rest, onError: this.report });
    this.closed = new Promise((resolve) => (this.resolve = resolve));
    this.signals = stopOn;
    for (const signal of stopOn) process.on(signal, this.onSignal);
    void this.run();
  }

  /** Stops reserving, waits for the handlers, and gives back what they have not done by the deadline. */
  close(): Promise<void> {
    this.closing ??= this.deliveries.stop(this.closeTimeoutMs).then(() => {
      for (const signal of this.signals) process.off(signal, this.onSignal);
      this.resolve();
    });
    return this.closing;
  }

  private readonly onSignal = (signal: NodeJS.Signals): void => {
    if (this.closing) return;
    void this.close().then(() => {
      // What the signal does where no handler is left.
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

  private async work(delivery: Delivery): Promise<void> {
    const fault = await this.handle(delivery);
    if (fault !== undefined) this.report(fault, delivery);
    if (delivery.isSettled) return;
    try {
      const reason = fault instanceof Error ? fault.message : String(fault);
      let settled;
      if (fault === undefined) settled = await delivery.ack();
      else if (fault instanceof Bury) settled = await delivery.bury(reason);
      else settled = await delivery.release({ reason });
      if (settled.word === "expired") this.report(new Error("its lease ran out before it was settled: it comes again"), delivery);
    } catch (lost) {
      this.report(lost, delivery);
    }
  }

  /** What the handler threw; undefined where it returned. */
  private async handle(delivery: Delivery): Promise<unknown> {
    try {
      await this.handler(delivery);
      return undefined;
    } catch (fault) {
      return fault ?? new Error("the handler threw nothing that says why");
    }
  }
}

const FIELDS = "concurrency leaseMs onError closeTimeoutMs stopOn";
