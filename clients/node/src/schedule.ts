/**
 * Decides the next call of a worker that pumps a shard, and judges the clock of Redis. Pure.
 *
 * A call ran between sending and answer, so each answer bounds the difference of the two clocks from both sides. Names in ms are
 * times of Redis, or spans; other times are times of `performance.now`.
 */

/** Life of a lock, and pauses between renewals: while pumping, and while the clock is not trusted. */
export const LOCK_MS = 10_000;
const [RENEW_MS, CLOSELY_MS] = [4_000, 1_000];
/** Pauses before the next claim: of a shard that a timer owns, after an error, and at most after the end of a lock. */
const [WATCH_MS, CLAIM_RETRY_MS, SPREAD_MS] = [5_000, 1_000, 500];
/** Maximum pause between pumps: the safety net. */
export const POLL_MS = 8_000;
/** Pauses after a pump that left a due message in place, and after a failed pump, doubled after each further failure. */
const [STUCK_MS, RETRY_MS, MAX_RETRY_MS] = [5, 20, 1_000];
/** Maximum step of a trusted clock, additional time for a call, and time that a clock has to be steady after a larger step. */
const [MAX_STEP_MS, TRIP_MS, STEADY_MS] = [1_000, 100, 10_000];

export type Next = { verb: "claim" | "hold" | "pump"; at: number };

/** The clock of the Redis of a shard. */
export class Clock {
  /** Redis's clock minus the local clock. The clock of a Redis that takes over has to fit. */
  aheadMs = NaN;
  isJumped = false;
  private steadyFrom = Infinity;

  /** Takes the time that Redis read during a call. */
  hear(redisUs: number, sent: number, answered: number): void {
    const [low, high] = [redisUs / 1000 - answered, redisUs / 1000 - sent];
    const isJump = Math.max(low - this.aheadMs, this.aheadMs - high) > MAX_STEP_MS;
    if (isJump || Number.isNaN(this.aheadMs)) [this.aheadMs, this.steadyFrom] = [(low + high) / 2, answered];
    this.aheadMs = Math.min(Math.max(this.aheadMs, low), high);
    this.isJumped = isJump || (this.isJumped && !this.isSteady(sent));
  }

  /** Reports whether the shard has to be held. A hold of an earlier owner ends once the clock is proven. */
  holds(isHeld: boolean, now: number): boolean {
    return this.isJumped || (isHeld && !this.isSteady(now));
  }

  /** Returns the latest time that a call sent now can find on this clock, unless it jumps. */
  latestMs(now: number): number {
    return Math.ceil(this.aheadMs + now + MAX_STEP_MS + TRIP_MS);
  }

  private isSteady(now: number): boolean {
    return now - this.steadyFrom >= STEADY_MS;
  }
}

/** One shard of the deployment. */
export class Shard {
  readonly clock = new Clock();
  /** The epoch of this worker's claim; undefined while another program owns the shard. */
  epoch?: number;
  /** The mark of the last pump, which reveals a Redis that came back with older data. */
  mark = "";
  /** Times of the next and the last claim; the owner gave the shard back since the last claim. */
  claimAt = 0;
  private claimed = 0;
  private isFreed = false;
  /** Time of the last answer to a pump, end of the rest before the next pump, and number of failures since. */
  private pumped = 0;
  private restUntil = 0;
  private failures = 0;
  /** The next due time by the last answer, and the soonest due time reported since the last pump was sent. */
  private dueMs = 0;
  private wokenMs = Infinity;
  private isHeld = false;

  constructor(readonly number: number) {}

  /** Returns the next call, and the time of sending. */
  next(now: number): Next {
    const claim: Next = { verb: "claim", at: this.claimAt };
    if (this.epoch === undefined) return claim;
    const isHeld = this.clock.holds(this.isHeld, now);
    if (isHeld !== this.isHeld) return { verb: "hold", at: this.restUntil };
    const due = Math.min(this.dueMs, this.wokenMs) - this.clock.aheadMs;
    const pump: Next = { verb: "pump", at: Math.max(Math.min(due, this.pumped + POLL_MS), this.restUntil) };
    return isHeld || claim.at < pump.at ? claim : pump;
  }

  /** Takes note of a call. Later reports may be younger than the answer. */
  sends(verb: Next["verb"]): void {
    if (verb === "claim") this.isFreed = false;
    if (verb === "pump") this.wokenMs = Infinity;
  }

  /** Takes a report: a due time, `free` where the owner gave the shard back, or 0 where reports may be lost. */
  woken(report: string, now: number): void {
    if (/^\d+$/.test(report)) this.wokenMs = Math.min(this.wokenMs, Number(report));
    if (this.epoch === undefined && ["free", "0"].includes(report)) [this.isFreed, this.claimAt] = [true, now];
  }

  /** Takes the epoch of a claim. Only a pump tells whether an earlier owner left the shard held. */
  own(epoch: number, sent: number): void {
    if (this.epoch === undefined) this.pumped = sent;
    if (epoch !== this.epoch) [this.epoch, this.dueMs, this.restUntil, this.isHeld] = [epoch, 0, 0, false];
    this.claimed = sent;
    this.planRenewal();
  }

  /** Leaves the shard to the owner until the lock ends; without a lock, to a timer. */
  lose(now: number, lockMs?: number): void {
    // Random, so that workers do not claim in step. An answer may be older than a report.
    const restMs = lockMs === undefined ? WATCH_MS : lockMs + Math.random() * SPREAD_MS;
    this.epoch = undefined;
    this.claimAt = now + (this.isFreed ? 0 : restMs);
  }

  /** Takes the answer of a pump or of a hold. A pump is stuck if a due message was left in place. */
  answer(dueMs: number, isHeld: boolean, isStuck: boolean, now: number): void {
    [this.pumped, this.dueMs, this.failures, this.isHeld] = [now, dueMs, 0, isHeld];
    this.restUntil = isStuck ? now + STUCK_MS : 0;
    this.planRenewal();
  }

  /** Rests after a failed call; after a pump or hold longer each time. */
  fail(verb: Next["verb"], now: number): void {
    if (verb === "claim") {
      this.claimAt = now + CLAIM_RETRY_MS;
      this.claimed = this.claimAt - RENEW_MS;
      return;
    }
    this.restUntil = now + Math.min(RETRY_MS * 2 ** this.failures, MAX_RETRY_MS);
    this.dueMs = 0;
    this.failures = Math.min(this.failures + 1, 16);
  }

  /** Plans the next renewal. The lock of a worker that cannot pump ends, and another worker comes first. */
  private planRenewal(): void {
    this.claimAt = this.claimed + (this.isHeld ? CLOSELY_MS : RENEW_MS);
    if (!this.isHeld && this.claimAt - this.pumped >= LOCK_MS) this.claimAt = this.claimed + 2 * LOCK_MS;
  }
}
