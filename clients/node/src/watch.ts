/** Which shards may have something for the calls that wait for the same topics. */

/** The most polls until each shard had its turn. */
const MAX_POLLS = 64;

/** What came too late for the call that asked; it goes to one that asks for the same lease. */
type Late<T> = { one: T; leaseMs: number | undefined };

/** The shards to ask, each from a time on; times are on the clock of `performance.now`. `T` is what they are asked for. */
export class Watch<T> {
  /** How often a shard, or a few in turn, is polled: the net below a lost notification. */
  static pollMs = 2_500;

  private readonly open = new Map<number, number>();
  private polled = 0;
  private pollAt = 0;
  private wake = (): void => undefined;
  private changed = Promise.resolve();
  private found: Late<T>[] = [];
  /** Why nothing came. */
  private fault: unknown;
  /** How many calls wait by it, and since when there are none. */
  waiting = 0;
  idleMs = performance.now();

  constructor(private readonly topics: readonly string[]) {
    this.renew();
  }

  /** Notes that a shard may have something after `afterMs`; of a topic, or of any. */
  notify(shard: number, topic = "", afterMs = 0): void {
    if (topic !== "" && !this.topics.includes(topic)) return;
    const at = performance.now() + afterMs;
    if ((this.open.get(shard) ?? Infinity) <= at) return;
    this.open.set(shard, at);
    this.renew();
  }

  /** Keeps what came under a lease, or why nothing did, for the next call. */
  keep(found: readonly T[], leaseMs: number | undefined, fault: unknown): void {
    for (const one of found) this.found.push({ one, leaseMs });
    this.fault ??= fault;
    this.renew();
  }

  /** Takes of what was kept under a lease: so many, or the fault where there is nothing else. */
  kept(max: number, leaseMs: number | undefined): { found: T[]; fault?: unknown } {
    const found = this.remove((one) => one.leaseMs === leaseMs && max-- > 0);
    if (found.length > 0) return { found };
    const { fault } = this;
    this.fault = undefined;
    return { found, fault };
  }

  /** Takes those of these that no call has taken. */
  clear(kept: readonly T[]): T[] {
    const these = new Set(kept);
    return this.remove(({ one }) => these.has(one));
  }

  private remove(isMeant: (late: Late<T>) => boolean): T[] {
    const meant = new Set(this.found.filter(isMeant));
    this.found = this.found.filter((late) => !meant.has(late));
    return [...meant].map(({ one }) => one);
  }

  /** The shards to ask now, at most `max`; they count as asked. */
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
   * Waits for a notification, the time of a shard, the next poll, or `untilMs`, whichever is first; not at all where
   * something is kept under this lease.
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

  /** Wakes those who wait. */
  renew(): void {
    this.wake();
    this.changed = new Promise((resolve) => (this.wake = resolve));
  }
}
