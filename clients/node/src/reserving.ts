/** Reserving: from the shards that may have something, at once or when they have. */

import { hostname } from "node:os";
import { basename } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import type { Calls } from "./calls.js";
import { connectionFor } from "./connections.js";
import { Delivery, leases, REST_MS, settleItem, type Lease, type SettleOne } from "./delivery.js";
import type { Gatherer } from "./gather.js";
import { Listener } from "./listener.js";
import { InvalidMessage } from "./names.js";
import { orderOfReceipt, type Ordering } from "./ordering.js";
import { ClosedError, TimeoutError } from "./outcome.js";
import type { Restorer } from "./payload.js";
import { Rounds, type Answer } from "./rounds.js";
import { readEnvelope } from "./stored.js";
import { Watch } from "./watch.js";

/** What is asked for: of which topics, for how long (as the topic says), how many. */
export type Ask = { topics: readonly string[]; leaseMs: number | undefined; max: number };

/** How long a watch stays that no call waits by. */
export const LINGER_MS = 60_000;

/** What this process calls itself in the history of messages. */
const BY = `by=${basename(process.argv[1] ?? "node")}@${hostname()}:${process.pid}`;

/** When a reserve was sent, as the clock of `performance.now` says, and what Redis's clock said then. */
type Origin = { sentAt: number; nowMs: number };

/** Reserves for all callers of a client. Those that wait share one connection that listens. */
export class Reserver {
  private readonly watches = new Map<string, Watch<Delivery>>();
  private readonly rounds = new Rounds();
  private listener?: Listener;
  private isClosed = false;
  private readonly settleOne: SettleOne = (verb, item) => {
    const order = verb === "extend" ? [] : [orderOfReceipt({ shard: item.place as number, raw: item.args[0] as Buffer })];
    return this.writes.after(order, () => this.gatherer.add(verb, item));
  };
  private turn = Math.floor(Math.random() * 2 ** 32);

  constructor(
    private readonly calls: Calls,
    private readonly gatherer: Gatherer,
    private readonly writes: Ordering,
    private readonly restorer: Restorer,
  ) {}

  /**
   * Reserves what is ready now. Asks as many shards at a time as messages, and begins one shard further each time. Of several
   * Redises, one that fails is not asked again.
   */
  async reserveNow(ask: Ask): Promise<Delivery[]> {
    const shards = await this.calls.shards();
    const first = ++this.turn;
    const faults = new Map<string, unknown>();
    for (let asked = 0; asked < shards; asked += ask.max) {
      const some = Array.from({ length: Math.min(ask.max, shards - asked) }, (_, n) => (first + asked + n) % shards);
      for (const node of new Set(some.map((shard) => this.calls.nodeName(shard)))) {
        if (faults.has(node)) continue;
        try {
          const found = await this.ask(ask, some.filter((shard) => this.calls.nodeName(shard) === node));
          if (found.length > 0) return found;
        } catch (fault) {
          faults.set(node, fault);
        }
      }
    }
    for (const fault of faults.values()) throw fault;
    return [];
  }

  /** Reserves once something is ready: until then on the clock of `performance.now`, or until aborted. */
  async reserveWhenReady(ask: Ask, untilMs: number, signal?: AbortSignal): Promise<Delivery[]> {
    const watch = this.watch(ask.topics, await this.calls.shards());
    watch.waiting++;
    try {
      return await this.reserveBy(watch, ask, untilMs, signal);
    } finally {
      watch.waiting--;
      watch.idleMs = performance.now();
    }
  }

  private async reserveBy(watch: Watch<Delivery>, ask: Ask, untilMs: number, signal?: AbortSignal): Promise<Delivery[]> {
    for (;;) {
      if (signal?.aborted) return [];
      if (this.isClosed) throw new ClosedError();
      const shards = await this.calls.shards();
      this.listen(shards);
      const kept = watch.kept(ask.max, ask.leaseMs);
      if (kept.found.length > 0) return kept.found;
      if (kept.fault !== undefined && this.rounds.fault) throw kept.fault; // not a silence that is over
      const due = watch.take(shards, ask.max);
      const found = await this.askEach(ask, due, watch);
      if (found.length > 0) return found;
      if (due.length > 0) continue;
      if (performance.now() >= untilMs) {
        if (this.rounds.fault) throw this.rounds.fault;
        return [];
      }
      await watch.wait(ask.leaseMs, untilMs, signal);
    }
  }

  /** The watch of some topics: at first, every shard may have something. It takes the place of those long out of use. */
  private watch(topics: readonly string[], shards: number): Watch<Delivery> {
    const key = topics.join(" ");
    const known = this.watches.get(key);
    if (known) return known;
    for (const [old, { waiting, idleMs }] of this.watches) {
      if (waiting === 0 && performance.now() - idleMs > LINGER_MS) this.watches.delete(old);
    }
    const watch = new Watch<Delivery>(topics);
    for (let shard = 0; shard < shards; shard++) watch.notify(shard);
    this.watches.set(key, watch);
    return watch;
  }

  /** Stops listening; waiting calls fail. */
  close(): void {
    this.isClosed = true;
    this.listener?.close();
    for (const watch of this.watches.values()) watch.renew();
  }

  private listen(shards: number): void {
    if (this.listener) return this.listener.grow(shards);
    const notify = (shard: number, topic: string): void => {
      for (const watch of this.watches.values()) watch.notify(shard, topic);
    };
    this.listener = new Listener(this.calls.redis, this.calls.namespace, shards, notify, (node) => this.calls.replace(node));
  }

  /** Asks the node of each shard by itself, and waits a little for all. What comes later is kept for a caller who waits. */
  private async askEach(ask: Ask, shards: readonly number[], watch: Watch<Delivery>): Promise<Delivery[]> {
    if (!this.calls.redis.isCluster && !this.calls.isSeveral) return this.ask(ask, shards, watch);
    const patience = new AbortController();
    const isOver = sleep(REST_MS, undefined, { signal: patience.signal }).catch(() => undefined);
    const awaited: Promise<Answer<Delivery>>[] = [];
    for (const [node, some] of this.byNode(shards)) {
      const { now, isSlow } = this.rounds.begin(node, some, watch);
      if (now.length === 0) continue;
      const max = isSlow ? 1 : Math.floor((ask.max * some.length) / shards.length); // at least 1 for each shard
      const round = this.ask({ ...ask, max }, now, watch).then((found) => ({ found }), (fault) => ({ found: [], fault }));
      if (isSlow) void this.late(node, round, ask, watch);
      else awaited.push(this.inTime(node, round, ask, isOver, watch));
    }
    const answers = await Promise.all(awaited);
    patience.abort();
    const found = answers.flatMap((answer) => answer.found);
    const fault = answers.find((answer) => answer.fault !== undefined)?.fault;
    if (found.length === 0 && fault !== undefined) throw fault;
    this.keep([], ask, fault, watch); // the next call throws it, unless it was a silence that is over
    return found;
  }

  /** Parts shards by the nodes that have them. That of a shard whose node is not known is empty. */
  private byNode(shards: readonly number[]): Map<string, number[]> {
    const parts = new Map<string, number[]>();
    for (const shard of shards) {
      const options = connectionFor(this.calls.redis, `{${this.calls.namespace}:${shard}}:meta`)?.options;
      const node = this.calls.nodeName(shard) || (options ? `${options.host}:${options.port}` : "");
      parts.set(node, [...(parts.get(node) ?? []), shard]);
    }
    return parts;
  }

  /** What a round trip brings until then; nothing where it takes longer. */
  private async inTime(
    node: string, round: Promise<Answer<Delivery>>, ask: Ask, isOver: Promise<undefined>, watch: Watch<Delivery>,
  ): Promise<Answer<Delivery>> {
    const answer = await Promise.race([round, isOver]);
    if (answer) return { found: answer.found, fault: this.rounds.end(node, false, answer.fault) };
    this.rounds.leave(node);
    void this.late(node, round, ask, watch);
    return { found: [] };
  }

  /** Keeps what comes of a round trip that is not waited for. */
  private async late(node: string, round: Promise<Answer<Delivery>>, ask: Ask, watch: Watch<Delivery>): Promise<void> {
    const { found, fault } = await round;
    this.keep(found, ask, this.rounds.end(node, true, fault), watch);
  }

  /** Keeps deliveries, or why there are none, for a caller who waits, and gives back what nobody takes soon. */
  private keep(found: readonly Delivery[], { leaseMs }: Ask, fault: unknown, watch: Watch<Delivery>): void {
    if (found.length === 0 && fault === undefined) return;
    watch.keep(found, leaseMs, fault);
    setTimeout(() => {
      // Those that are not given back come again when their leases run out.
      for (const one of watch.clear(found)) void one.release({ delayMs: 0, keepAttempt: true }).catch(() => undefined);
    }, REST_MS);
  }

  /** Asks some shards at once, each for its part, and notes in the watch which may have more, and when. */
  private async ask({ topics, leaseMs, max }: Ask, shards: readonly number[], watch?: Watch<Delivery>): Promise<Delivery[]> {
    const asked = shards.map(async (shard, n) => {
      const part = Math.ceil((max - n) / shards.length);
      try {
        const sentAt = performance.now();
        const [nowUs, waitMs, , , , , ...items] = await this.calls.call("reserve", shard, [part, 0, leaseMs, ...topics, BY]);
        const found = await this.readable(leases(shard, topics, items), { sentAt, nowMs: nowUs / 1000 });
        if (found.length >= part || waitMs === 0) watch?.notify(shard);
        else if (typeof waitMs === "number") watch?.notify(shard, "", waitMs);
        return found;
      } catch (fault) {
        watch?.notify(shard, "", REST_MS); // so that those of other nodes do not wait for it
        if (fault instanceof TimeoutError) void this.giveBackLate(shard, topics, fault.late);
        throw fault;
      }
    });
    const answers = await Promise.allSettled(asked);
    const found = answers.flatMap((answer) => (answer.status === "fulfilled" ? answer.value : []));
    const faults = answers.flatMap((answer) => (answer.status === "rejected" ? [answer.reason] : []));
    // A call that was silent ends the connection, and so the others on it.
    if (found.length === 0 && faults.length > 0) throw faults.find((fault) => fault instanceof TimeoutError) ?? faults[0];
    return found;
  }

  /** Gives back what is reserved after the deadline, such as by a call that had waited for a connection. */
  private async giveBackLate(shard: number, topics: readonly string[], late: Promise<unknown>): Promise<void> {
    try {
      const reserved = leases(shard, topics, ((await late) as unknown[]).slice(6));
      const items = [...reserved].map(([{ receipt }]) => settleItem(receipt, 0, "keep", ""));
      if (items.length > 0) await this.calls.each("release", items);
    } catch {
      // It was not reserved, or comes again when its lease runs out.
    }
  }

  /** Reads envelopes. Unreadable messages are buried, so that they block no others. */
  private async readable(reserved: Iterable<[Lease, Buffer]>, origin: Origin): Promise<Delivery[]> {
    const all = [...reserved];
    const found: Delivery[] = [];
    for (const [lease, stored] of all) {
      try {
        const envelope = readEnvelope(stored);
        if (envelope.compressed) envelope.payload = await this.restorer.restore(envelope.payload);
        const lengthMs = lease.leaseEndMs - origin.nowMs;
        found.push(new Delivery(lease, envelope, this.settleOne, lengthMs, origin.sentAt + lengthMs));
      } catch (fault) {
        if (!(fault instanceof InvalidMessage)) {
          // Others may be able to read it.
          await this.calls.each("release", all.map(([one]) => settleItem(one.receipt, 1000, "keep", "")));
          throw fault;
        }
        await this.calls.each("bury", [settleItem(lease.receipt, fault.message)]);
      }
    }
    return found;
  }
}
