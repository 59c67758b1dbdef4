/** Which nodes of a cluster, or of several Redises, do not answer in time. Such a one is asked for one message at a time, by nobody who waits. */

import { REST_MS } from "./delivery.js";
import { TimeoutError } from "./outcome.js";
import type { Watch } from "./watch.js";

/** What one round trip to a node brought. */
export type Answer<T> = { found: T[]; fault?: unknown };

type SlowNode = {
  /** How many round trips nobody waits for. */
  underWay: number;
  /** Why the last one was not answered. */
  fault?: unknown;
  /** The shards to ask once one has ended. */
  waiting: Map<Watch<any>, Set<number>>;
};

/** Whether a fault is none of a node's own answers. */
function isSilence(fault: any): boolean {
  const isLost = fault?.name === "MaxRetriesPerRequestError" || fault?.message === "Connection is closed.";
  return fault instanceof TimeoutError || isLost || typeof fault?.syscall === "string";
}

/** The round trips of the waiting calls of a client. */
export class Rounds {
  private readonly slow = new Map<string, SlowNode>();

  /** Which of these shards to ask of a node now. A slow one is asked for one at a time; the others wait. */
  begin(node: string, shards: readonly number[], watch: Watch<any>): { now: readonly number[]; isSlow: boolean } {
    const slow = this.slow.get(node);
    if (!slow) return { now: shards, isSlow: false };
    const now = slow.underWay === 0 ? shards.slice(0, 1) : [];
    slow.underWay += now.length;
    const waiting = slow.waiting.get(watch) ?? new Set();
    for (const shard of shards.slice(now.length)) waiting.add(shard);
    slow.waiting.set(watch, waiting);
    return { now, isSlow: true };
  }

  /** Notes that a round trip is not waited for any more. */
  leave(node: string): void {
    this.of(node).underWay++;
  }

  /** Ends a round trip, which was left or not. Returns its fault, unless that is a silence which is known. */
  end(node: string, wasLeft: boolean, fault: unknown): unknown {
    const isSilent = isSilence(fault);
    const slow = isSilent ? this.of(node) : this.slow.get(node);
    if (!slow) return fault;
    if (wasLeft) slow.underWay--;
    const { waiting, fault: known } = slow;
    slow.waiting = new Map();
    for (const [watch, shards] of waiting) for (const shard of shards) watch.notify(shard, "", isSilent ? REST_MS : 0);
    if (isSilent) slow.fault = fault;
    else delete slow.fault;
    if (!isSilent && slow.underWay === 0) this.slow.delete(node);
    return isSilent && known ? undefined : fault;
  }

  /** Why a node is silent; undefined where none is. */
  get fault(): unknown {
    return [...this.slow.values()].find(({ fault }) => fault)?.fault;
  }

  private of(node: string): SlowNode {
    const slow = this.slow.get(node) ?? { underWay: 0, waiting: new Map() };
    this.slow.set(node, slow);
    return slow;
  }
}
