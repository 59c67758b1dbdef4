/** Orders the writes of one message; changes of groups follow all earlier writes. */

import type { Receipt } from "./delivery.js";

/** Writes in flight, by message. */
export class Ordering {
  private readonly last = new Map<string, Promise<void>>();
  private readonly inFlight = new Set<Promise<void>>();

  /** Runs a write after all earlier writes of the same messages have ended. */
  after<T>(messages: readonly string[], work: () => Promise<T>): Promise<T> {
    const before = messages.filter((one) => this.last.has(one)).map((one) => this.last.get(one));
    const result = before.length > 0 ? Promise.all(before).then(work) : work();
    const forget = (): void => this.forget(messages, ended);
    const ended: Promise<void> = result.then(forget, forget);
    for (const one of messages) this.last.set(one, ended);
    this.inFlight.add(ended);
    return result;
  }

  /** Resolves after all writes in flight. */
  async allEnded(): Promise<void> {
    await Promise.all(this.inFlight);
  }

  private forget(messages: readonly string[], ended: Promise<void>): void {
    this.inFlight.delete(ended);
    for (const one of messages) if (this.last.get(one) === ended) this.last.delete(one);
  }
}

export const orderOf = (topic: string, id: string): string => `${topic}\n${id}`;

export const orderOfReceipt = ({ shard, raw }: Receipt): string => `${shard}\n${raw.toString("latin1")}`;
