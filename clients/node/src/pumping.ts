/**
 * A worker that pumps, so that messages are delivered on time without a timer.
 *
 * Workers share the shards by the lock of `claim`, and yield to timers. The owner of a shard sleeps until the next due time, or
 * until the channel `wake` reports a sooner due time.
 */

import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import type { Arg, Calls } from "./calls.js";
import { ClosedError } from "./outcome.js";
import type { Reserver } from "./reserving.js";
import { LOCK_MS, Shard } from "./schedule.js";

/** Maximum ids of the pumps of all shards, and minimum share of a shard. */
const [MAX_IDS, MIN_IDS] = [150, 8];
/** Pause between looks at the number of shards, and maximum wait of a stop. */
const [LOOK_MS, STOP_MS] = [1_000, 1_000];

/** A shard, and the loop that pumps the shard. */
type Loop = { shard: Shard; wake: () => void; ended: Promise<void> };

/** Pumps every shard that no other worker and no timer pumps. */
export class Pumping {
  /** Uses separate connections, so that no due message waits behind other answers. */
  private readonly calls: Calls;
  private readonly owner = `worker/${hostname()}:${process.pid}-${randomBytes(4).toString("hex")}`;
  private readonly loops: Loop[] = [];
  private readonly stopping = new AbortController();
  /** Servers with a failed last call. */
  private readonly failing = new Set<string>();

  constructor(calls: Calls, private readonly reserver: Reserver, private readonly report: (fault: unknown) => void) {
    this.calls = calls.apart();
    void this.grow();
  }

  /** Gives every shard back, for other workers to claim at once. */
  async stop(): Promise<void> {
    this.stopping.abort();
    this.reserver.unfollow(this.woken);
    for (const { wake } of this.loops) wake();
    const over = new AbortController();
    const given = Promise.all(this.loops.map(({ shard, ended }) => ended.then(() => this.giveBack(shard))));
    await Promise.race([given, sleep(STOP_MS, undefined, { signal: over.signal }).catch(() => undefined)]);
    over.abort();
    this.calls.close();
  }

  /** Starts a loop for each shard, also after a growth. */
  private async grow(): Promise<void> {
    while (!this.stopping.signal.aborted) {
      try {
        const shards = await this.calls.shards();
        this.reserver.follow(this.woken, shards);
        for (let n = this.loops.length; n < shards; n++) this.start(new Shard(n));
      } catch (fault) {
        if (fault instanceof ClosedError) return;
        this.failed("", fault);
      }
      await sleep(LOOK_MS, undefined, { signal: this.stopping.signal }).catch(() => undefined);
    }
  }

  private readonly woken = (number: number, report: string): void => {
    const loop = this.loops[number];
    loop?.shard.woken(report, performance.now());
    loop?.wake();
  };

  private start(shard: Shard): void {
    const loop: Loop = { shard, wake: () => undefined, ended: Promise.resolve() };
    this.loops.push(loop);
    loop.ended = this.run(loop);
  }

  private async run(loop: Loop): Promise<void> {
    const { shard } = loop;
    while (!this.stopping.signal.aborted) {
      const now = performance.now();
      const { verb, at } = shard.next(now);
      if (at > now) {
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, Math.ceil(at - now));
          loop.wake = () => (clearTimeout(timer), resolve());
        });
        continue;
      }
      shard.sends(verb);
      try {
        await this[verb](shard);
        this.failing.delete(this.calls.serverName(shard.number));
      } catch (fault) {
        shard.fail(verb, performance.now());
        this.failed(this.calls.serverName(shard.number), fault);
      }
    }
  }

  /** Claims a shard, or renews the lock. */
  private async claim(shard: Shard): Promise<void> {
    const sent = performance.now();
    const [word, epoch, , , due, lockMs = ""] = await this.ask(shard, "claim", 2, ...this.claiming(LOCK_MS));
    if (String(word) === "owned") return shard.lose(performance.now(), String(lockMs) === "" ? undefined : Number(lockMs));
    shard.own(epoch, sent);
    shard.woken(String(due), sent);
  }

  /** Keeps due messages delayed while the clock is not trusted, for the next owner too; or ends the hold. */
  private async hold(shard: Shard): Promise<void> {
    const { isJumped } = shard.clock;
    const [word] = await this.calls.call("hold", shard.number, [shard.epoch, isJumped ? "on" : "off"]);
    shard.answer(0, isJumped, false, performance.now());
    if (String(word).startsWith("fenced")) shard.lose(performance.now());
  }

  private async pump(shard: Shard): Promise<void> {
    const limit = Math.max(Math.floor(MAX_IDS / this.loops.length), MIN_IDS);
    const latestMs = shard.clock.latestMs(performance.now());
    const reply = await this.ask(shard, "pump", 1, shard.epoch, limit, latestMs, shard.mark);
    const [word, mark, , older] = String(reply[0]).split(" ");
    const dueMs = String(reply[2]) === "" ? Infinity : Number(reply[2]);
    shard.answer(dueMs, word === "held", word !== "more" && dueMs * 1000 <= reply[1], performance.now());
    if (word === "fenced") return shard.lose(performance.now());
    if (mark !== undefined) shard.mark = mark;
    if (older !== undefined) this.report(new Error(`shard ${shard.number} came back with older data: what changed since ${older} ms is lost`));
    if (reply[8] > 0) this.report(new Error(`${reply[8]} due messages of shard ${shard.number} cannot be moved: a key has the wrong type`));
  }

  private async giveBack(shard: Shard): Promise<void> {
    if (shard.epoch !== undefined) await this.calls.call("claim", shard.number, this.claiming("free")).catch(this.report);
  }

  /** Returns the reply of a call. The reply has Redis's time at index `at`. */
  private async ask(shard: Shard, verb: string, at: number, ...args: Arg[]): Promise<any> {
    const sent = performance.now();
    const reply = await this.calls.call(verb, shard.number, args);
    shard.clock.hear(reply[at], sent, performance.now());
    return reply;
  }

  private claiming(lock: Arg): Arg[] {
    return [this.owner, lock, this.calls.identity];
  }

  /** Reports the first of several faults of a server. */
  private failed(server: string, fault: unknown): void {
    const isKnown = this.failing.has(server) || this.stopping.signal.aborted;
    this.failing.add(server);
    if (!isKnown) this.report(new Error("cannot pump; retrying", { cause: fault }));
  }
}
