/** Batching: calls that arrive during a flight share the next flight. */

import type { Item } from "./calls.js";
import type { Outcome, Results, Verb, Words } from "./outcome.js";

/** Limits of a batch, and of batches in flight. */
const [MAX_ITEMS, MAX_BYTES, IN_FLIGHT] = [500, 1024 * 1024, 4];
/** Minimum items per shard of a batch that is cut in two: with fewer, the second calls cost more than the overlap gains. */
const MIN_CUT = 32;

type Send = (verb: Verb, items: readonly Item[]) => Promise<Results>;
type Entry = { verb: Verb; item: Item; resolve: (outcome: any) => void; reject: (fault: unknown) => void };

export class Gatherer {
  private waiting: Entry[] = [];
  private underWay = 0;
  private isPlanned = false;
  /** Counts batches; messages of a batch share a shard. */
  batch = Math.floor(Math.random() * 2 ** 32);

  /** `shards` is the number of shards, 0 while unknown. */
  constructor(private readonly send: Send, private readonly shards: () => number) {}

  /** Runs a verb for one item in a batch; an item aborted in the queue is not sent. */
  add<V extends Verb>(verb: V, item: Item, signal?: AbortSignal): Promise<Outcome<Words[V]>> {
    let giveUp = (): void => undefined;
    const outcome = new Promise<Outcome<Words[V]>>((resolve, reject) => {
      const entry = { verb, item, resolve, reject };
      giveUp = () => {
        const at = this.waiting.indexOf(entry);
        if (at >= 0) reject(this.waiting.splice(at, 1) && signal!.reason);
      };
      this.waiting.push(entry);
      this.plan();
      if (signal?.aborted) giveUp();
    });
    if (!signal) return outcome;
    signal.addEventListener("abort", giveUp);
    return outcome.finally(() => signal.removeEventListener("abort", giveUp));
  }

  /** Sends at the end of this turn of the event loop, so that calls of the turn share a batch. */
  private plan(): void {
    if (this.isPlanned || this.waiting.length === 0 || this.underWay >= IN_FLIGHT) return;
    this.isPlanned = true;
    setImmediate(() => {
      this.isPlanned = false;
      this.flush();
    });
  }

  /**
   * Sends the next batch. Callers that were answered together come back together, and would then wait while Redis works, and
   * Redis for them: half of the items go first, and the other half right behind.
   */
  private flush(): void {
    const [count, shards] = [this.waiting.length, this.shards()];
    const isCut = this.underWay === 0 && shards > 0 && count >= MIN_CUT * shards;
    if (isCut) void this.go(this.take(Math.ceil(count / 2)));
    void this.go(this.take(MAX_ITEMS));
  }

  private async go(batch: readonly Entry[]): Promise<void> {
    if (batch.length === 0) return; // all were given up
    this.batch++;
    this.underWay++;
    this.plan();
    const verbs = [...new Set(batch.map(({ verb }) => verb))];
    await Promise.all(verbs.map((verb) => this.settle(verb, batch.filter((one) => one.verb === verb))));
    this.underWay--;
    this.plan();
  }

  private take(most: number): Entry[] {
    let [count, bytes] = [0, 0];
    for (const { item } of this.waiting) {
      bytes += item.bytes ?? 0;
      if (count > 0 && (count === Math.min(most, MAX_ITEMS) || bytes > MAX_BYTES)) break;
      count++;
    }
    return this.waiting.splice(0, count);
  }

  private async settle(verb: Verb, entries: readonly Entry[]): Promise<void> {
    const { outcomes, faults } = await this.send(verb, entries.map(({ item }) => item));
    entries.forEach(({ resolve, reject }, i) => {
      if (outcomes[i] === undefined) reject(faults[i]);
      else resolve(outcomes[i]);
    });
  }
}
