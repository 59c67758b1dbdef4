/** Which shards may have something for the calls that wait for the same topics with the same lease. */

/** The most polls until each shard had its turn. */
const MAX_POLLS = 64;

/** The shards to ask, each from a time on; times are on the clock of `performance.now`. `T` is what they are asked for. */
export class Watch<T> {
  /** How often a shard, or a few in turn, is polled: the net below a lost notification. */
  static pollMs = 1_250;

  private readonly open = new Map<number, number>();
  private polled = 0;
  private pollAt = 0;
  private wake = (): void => undefined;
  private changed = Promise.resolve();
  /** What came too late for the call that asked, and why nothing came. */
  private found: T[] = [];
  private fault: unknown;

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

  /** Keeps what came, or why nothing did, for the next call. */
  keep(found: readonly T[], fault: unknown): void {
    this.found.push(...found);
    this.fault ??= fault;
    this.renew();
  }

  /** Takes of what was kept: so many, or the fault where there is nothing else. */
  kept(max: number): { found: T[]; fault?: unknown } {
    if (this.found.length > 0) return { found: this.found.splice(0, max) };
    const { fault } = this;
    this.fault = undefined;
    return { found: [], fault };
  }

  /** Takes those of these that no call has taken. */
  clear(kept: readonly T[]): T[] {
    const these = new Set(kept);
    const left = this.found.filter((one) => these.has(one));
    this.found = this.found.filter((one) => !these.has(one));
    return left;
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

  /** Waits for a notification, the time of a shard, the next poll, or `untilMs`, whichever is first. */
  async wait(untilMs: number, signal?: AbortSignal): Promise<void> {
    const isKept = this.found.length > 0 || this.fault !== undefined;
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
  private renew(): void {
    this.wake();
    this.changed = new Promise((resolve) => (this.wake = resolve));
  }
}
