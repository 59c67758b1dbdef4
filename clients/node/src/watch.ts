/** Tracks which shards may have ready messages for one list of topics. */

/** Maximum polls for a full round over all shards. */
const MAX_POLLS = 64;

/** A delivery that arrived too late for the caller, for a call with the same lease. */
type Late<T> = { one: T; leaseMs: number | undefined };

/** Shards to ask, each with an earliest time on the clock of `performance.now`. `T` is the type of deliveries. */
export class Watch<T> {
  /** Pause between polls of idle shards, a safety net for lost notifications. */
  static pollMs = 2_500;

  private readonly open = new Map<number, number>();
  private polled = 0;
  private pollAt = 0;
  private wake = (): void => undefined;
  private changed = Promise.resolve();
  private found: Late<T>[] = [];
  private fault: unknown;
  /** Number of waiting calls, and the end of the last one. */
  waiting = 0;
  idleMs = performance.now();

  constructor(private readonly topics: readonly string[]) {
    this.renew();
  }

  /** Schedules a shard, for one topic or, with "", for all topics. */
  notify(shard: number, topic = "", afterMs = 0): void {
    if (topic !== "" && !this.topics.includes(topic)) return;
    const at = performance.now() + afterMs;
    if ((this.open.get(shard) ?? Infinity) <= at) return;
    this.open.set(shard, at);
    this.renew();
  }

  /** Keeps deliveries, or an error, for the next call. */
  keep(found: readonly T[], leaseMs: number | undefined, fault: unknown): void {
    for (const one of found) this.found.push({ one, leaseMs });
    this.fault ??= fault;
    this.renew();
  }

  /** Takes at most `max` deliveries with the same lease, or else the fault. */
  kept(max: number, leaseMs: number | undefined): { found: T[]; fault?: unknown } {
    const found = this.remove((one) => one.leaseMs === leaseMs && max-- > 0);
    if (found.length > 0) return { found };
    const { fault } = this;
    this.fault = undefined;
    return { found, fault };
  }

  /** Takes the deliveries that no call has taken. */
  clear(kept: readonly T[]): T[] {
    const these = new Set(kept);
    return this.remove(({ one }) => these.has(one));
  }

  private remove(isMeant: (late: Late<T>) => boolean): T[] {
    const meant = new Set(this.found.filter(isMeant));
    this.found = this.found.filter((late) => !meant.has(late));
    return [...meant].map(({ one }) => one);
  }

  /** Returns at most `max` due shards, and removes the shards from the schedule. */
  take(shards: number, max: number): number[] {
    const now = performance.now();
    if (now >= this.pollAt) {
      this.pollAt = now + Watch.pollMs;
      for (let n = Math.ceil(shards / MAX_POLLS); n > 0; n--) {
        this.polled = (this.polled + 1) % shards;
        if (!this.open.has(this.polled)) this.open.set(this.polled, now);
      }
    }
    const due = [...this.open].filter(([, at]) => at <= now).slice(0, max);
    return due.map(([shard]) => {
      this.open.delete(shard);
      return shard;
    });
  }

  /**
   * Waits for a notification, the next scheduled time, the next poll or `untilMs`; returns at once if something is kept for
   * this lease.
   */
  async wait(leaseMs: number | undefined, untilMs: number, signal?: AbortSignal): Promise<void> {
    const isKept = this.found.some((one) => one.leaseMs === leaseMs) || this.fault !== undefined;
    const next = isKept ? 0 : Math.min(untilMs, this.pollAt, ...this.open.values());
    let timer: NodeJS.Timeout | undefined;
    let stop = (): void => undefined;
    const ended = new Promise<void>((resolve) => {
      stop = resolve;
      timer = setTimeout(resolve, Math.max(0, Math.ceil(next - performance.now())));
      signal?.addEventListener("abort", stop);
    });
    await Promise.race([this.changed, ended]);
    clearTimeout(timer);
    signal?.removeEventListener("abort", stop);
  }

  renew(): void {
    this.wake();
    this.changed = new Promise((resolve) => (this.wake = resolve));
  }
}
