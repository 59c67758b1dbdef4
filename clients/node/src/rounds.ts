/** Nodes that do not answer in time are asked for one message at a time, in the background. */

import { REST_MS } from "./delivery.js";
import { TimeoutError } from "./outcome.js";
import type { Watch } from "./watch.js";

export type Answer<T> = { found: T[]; fault?: unknown };

type SlowNode = {
  /** Background round trips. */
  underWay: number;
  /** The error of the last round trip. */
  fault?: unknown;
  /** Shards to ask after the next answer. */
  waiting: Map<Watch<any>, Set<number>>;
};

/** Reports whether a connection failed, as opposed to an answer of Redis. */
function isSilence(fault: any): boolean {
  const isLost = fault?.name === "MaxRetriesPerRequestError" || fault?.message === "Connection is closed.";
  return fault instanceof TimeoutError || isLost || typeof fault?.syscall === "string";
}

/** The round trips of the waiting calls of a client. */
export class Rounds {
  private readonly slow = new Map<string, SlowNode>();

  /** Returns the shards to ask now: all shards of a fast node, at most one of a slow node. */
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

  /** Moves a round trip to the background. */
  leave(node: string): void {
    this.of(node).underWay++;
  }

  /** Records the end of a round trip, and returns the fault unless the silence is already known. */
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

  /** The error of a silent node; undefined if all nodes answer. */
  get fault(): unknown {
    return [...this.slow.values()].find(({ fault }) => fault)?.fault;
  }

  private of(node: string): SlowNode {
    const slow = this.slow.get(node) ?? { underWay: 0, waiting: new Map() };
    this.slow.set(node, slow);
    return slow;
  }
}
