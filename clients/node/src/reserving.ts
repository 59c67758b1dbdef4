/** Reserving: immediately, or when a shard reports ready messages. */

import { hostname } from "node:os";
import { basename } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import type { Calls, Item } from "./calls.js";
import { Delivery, leases, REST_MS, settleItem, type Lease, type SettleOne } from "./delivery.js";
import { Listener, type Notify } from "./listener.js";
import { InvalidMessage } from "./names.js";
import { orderOfReceipt, type Ordering } from "./ordering.js";
import { asAck, ClosedError, TimeoutError, type Outcome, type Verb, type Words } from "./outcome.js";
import type { Restorer } from "./payload.js";
import { promoteEarliest } from "./promoting.js";
import { Rounds, type Answer } from "./rounds.js";
import { readEnvelope } from "./stored.js";
import { Watch } from "./watch.js";

/** Topics, lease (the topic's by default) and maximum messages of a reserve. */
export type Ask = { topics: readonly string[]; leaseMs: number | undefined; max: number };

/** How long an unused watch is kept. */
export const LINGER_MS = 60_000;

/** Names this process in the history of messages. */
const BY = `by=${basename(process.argv[1] ?? "node")}@${hostname()}:${process.pid}`;

/** Time of a reserve on the clock of `performance.now`, and the Redis time of the reply. */
type Origin = { sentAt: number; nowMs: number };

/** Reserves for all callers of a client. Waiting calls share one listening connection. */
export class Reserver {
  private readonly watches = new Map<string, Watch<Delivery>>();
  private readonly rounds = new Rounds();
  private listener?: Listener;
  private isClosed = false;
  private readonly settleOne: SettleOne = (verb, item) => {
    const order = verb === "extend" ? [] : [orderOfReceipt({ shard: item.place as number, raw: item.args[0] as Buffer })];
    const write = (): Promise<Outcome> => (item.topic.length > 0 ? this.write("put", item).then(asAck) : this.write(verb, item));
    return this.writes.after(order, write as () => Promise<any>);
  };
  private turn = Math.floor(Math.random() * 2 ** 32);

  constructor(
    private readonly calls: Calls,
    private readonly write: <V extends Verb>(verb: V, item: Item) => Promise<Outcome<Words[V]>>,
    private readonly writes: Ordering,
    private readonly restorer: Restorer,
    private readonly maxPayloadBytes: number,
  ) {}

  /**
   * Reserves ready messages, starting one shard later each time, from as many shards at once as messages wanted. A failed node
   * of several Redises is skipped.
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

  /** Reserves all ready messages that there is room for, and then the earliest due of the others. */
  async reservePromoting(ask: Ask, untilMs: number): Promise<Delivery[]> {
    const found: Delivery[] = [];
    try {
      await this.askAll(ask, Array.from({ length: await this.calls.shards() }, (_, shard) => shard), found);
      for (const topic of ask.topics) {
        if (found.length >= ask.max) break;
        const order = await promoteEarliest(this.calls, topic, untilMs, ask.max - found.length);
        const promoted: Delivery[] = [];
        await this.askAll({ ...ask, max: ask.max - found.length }, [...new Set(order.map(({ shard }) => shard))], promoted);
        const place = ({ receipt, id, group }: Delivery) => order.findIndex((one) => one.shard === receipt.shard && one.id === id && one.group === group);
        found.push(...promoted.map((one) => ({ one, at: place(one) })).sort((a, b) => a.at - b.at).map(({ one }) => one));
      }
    } catch (fault) {
      if (found.length === 0) throw fault; // else the next call meets it
    }
    return found;
  }

  /** Adds the ready messages of some shards, up to the maximum. A shard that gave its whole share is asked again. */
  private async askAll(ask: Ask, shards: readonly number[], found: Delivery[]): Promise<void> {
    let left = [...shards];
    while (left.length > 0 && found.length < ask.max) {
      const max = ask.max - found.length;
      const some = left.slice(0, max);
      const got = await this.ask({ ...ask, max }, some);
      found.push(...got);
      const isFull = (shard: number, n: number): boolean =>
        got.filter(({ receipt }) => receipt.shard === shard).length >= Math.ceil((max - n) / some.length);
      left = [...left.slice(max), ...some.filter(isFull)];
    }
  }

  /** Reserves as soon as a message is ready, until `untilMs` on the clock of `performance.now`, or until aborted. */
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

  /** Returns the watch of the topics, and drops watches that have been idle for long. A new watch starts with every shard. */
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
    this.listener?.count();
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
    const topics = (): string[] => [...this.watches.keys()].flatMap((key) => key.split(" "));
    this.listener = new Listener(this.calls.redis, this.calls.namespace, shards, notify, topics, (node) => this.calls.replace(node));
  }

  /** Also reports the due times of all shards, from now on: a sooner one, `free`, or 0 where reports may be lost. */
  follow(follower: Notify, shards: number): void {
    if (this.isClosed) return;
    this.listen(shards);
    this.listener!.follow(follower);
  }

  unfollow(follower: Notify): void {
    this.listener?.followers.delete(follower);
  }

  /** Asks every node, and waits briefly for all answers. A late answer is kept for the next waiting call. */
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

  /** Groups shards by node; "" if the node is unknown. */
  private byNode(shards: readonly number[]): Map<string, number[]> {
    const parts = new Map<string, number[]>();
    for (const shard of shards) {
      const node = this.calls.serverName(shard);
      parts.set(node, [...(parts.get(node) ?? []), shard]);
    }
    return parts;
  }

  /** Returns the answer of a round trip, or nothing if the answer is late. */
  private async inTime(
    node: string, round: Promise<Answer<Delivery>>, ask: Ask, isOver: Promise<undefined>, watch: Watch<Delivery>,
  ): Promise<Answer<Delivery>> {
    const answer = await Promise.race([round, isOver]);
    if (answer) return { found: answer.found, fault: this.rounds.end(node, false, answer.fault) };
    this.rounds.leave(node);
    void this.late(node, round, ask, watch);
    return { found: [] };
  }

  /** Keeps the answer of a background round trip. */
  private async late(node: string, round: Promise<Answer<Delivery>>, ask: Ask, watch: Watch<Delivery>): Promise<void> {
    const { found, fault } = await round;
    this.keep(found, ask, this.rounds.end(node, true, fault), watch);
  }

  /** Keeps deliveries, or an error, for the next waiting call, and releases unclaimed deliveries soon after. */
  private keep(found: readonly Delivery[], { leaseMs }: Ask, fault: unknown, watch: Watch<Delivery>): void {
    if (found.length === 0 && fault === undefined) return;
    watch.keep(found, leaseMs, fault);
    setTimeout(() => {
      // After a failed release, messages return when the leases expire.
      for (const one of watch.clear(found)) void one.release({ delayMs: 0, keepAttempt: true }).catch(() => undefined);
    }, REST_MS);
  }

  /** Reserves from several shards at once, and notes in the watch which shards may have more, and when. */
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
    // A silent call closes the connection, which fails the other calls.
    if (found.length === 0 && faults.length > 0) throw faults.find((fault) => fault instanceof TimeoutError) ?? faults[0];
    return found;
  }

  /** Releases messages that are reserved after the deadline, such as by a call that waited for a connection. */
  private async giveBackLate(shard: number, topics: readonly string[], late: Promise<unknown>): Promise<void> {
    try {
      const reserved = leases(shard, topics, ((await late) as unknown[]).slice(6));
      const items = [...reserved].map(([{ receipt }]) => settleItem(receipt, 0, "keep", ""));
      if (items.length > 0) await this.calls.each("release", items);
    } catch {
      // Nothing was reserved, or the messages return when the leases expire.
    }
  }

  /** Decodes envelopes. Unreadable messages are buried, so that the queue moves on. */
  private async readable(reserved: Iterable<[Lease, Buffer]>, origin: Origin): Promise<Delivery[]> {
    const all = [...reserved];
    const found: Delivery[] = [];
    for (const [lease, stored] of all) {
      try {
        const envelope = readEnvelope(stored);
        if (envelope.compressed) envelope.payload = await this.restorer.restore(envelope.payload);
        const lengthMs = lease.leaseEndMs - origin.nowMs;
        found.push(new Delivery(lease, envelope, this.settleOne, lengthMs, origin.sentAt + lengthMs, this.maxPayloadBytes));
      } catch (fault) {
        if (!(fault instanceof InvalidMessage)) {
          // Other clients may be able to read the message.
          await this.calls.each("release", all.map(([one]) => settleItem(one.receipt, 1000, "keep", "")));
          throw fault;
        }
        await this.calls.each("bury", [settleItem(lease.receipt, fault.message)]);
      }
    }
    return found;
  }
}
