/**
 * The tables of the protocol: limits, names, states, words, URLs, settings.
 *
 * Written from the tables of delayq-core, never by hand: DELAYQ_UPDATE=1 cargo test -p delayq-core --test answers -- description.
 */

export const MAX_IDS_A_CALL = 500;
export const MAX_BYTES_A_CALL = 4_194_304;
export const MAX_PAYLOAD_BYTES = 1_048_576;
export const MAX_HEADER_BYTES = 16_384;
export const MAX_REASON_BYTES = 1000;
export const MAX_ATTEMPTS = 65_535;
export const MAX_DELAY_MS = 4_294_967_295;
export const MAX_DELAYS = 32;
export const MAX_LEASE_MS = 86_400_000;
export const MAX_SPAN_MS = 4_503_599_627_370_496;
export const MAX_TIME_MS = 9_007_199_254_740_991;
export const MAX_SHARDS = 4096;
export const MAX_CONCURRENCY = 10_000;
export const MAX_TIMEOUT_MS = 86_400_000;
export const DEFAULT_NAMESPACE = "dq";
export const DEFAULT_MAX_PAYLOAD_BYTES = 262_144;
export const DEFAULT_CONCURRENCY = 10;
/** Times outside are mostly seconds or microseconds mistaken for milliseconds. */
export const FIRST_MEANT_MS = 978_307_200_000;
export const LAST_MEANT_MS = 253_402_300_799_999;

/** Words of the outcomes by verb; the README explains each. */
export interface Words {
  put: "stored" | "ready" | "again" | "exists" | "conflict" | "changed" | "unknown" | "leased" | "stale" | "refused";
  cancel: "cancelled" | "leased" | "dead" | "finished" | "unknown" | "failed";
  reschedule: "delayed" | "ready" | "changed" | "leased" | "dead" | "finished" | "unknown" | "refused" | "failed";
  extend: "extended" | "expired" | "failed";
  ack: "delivered" | "cancelled" | "expired" | "failed";
  release: "delayed" | "ready" | "buried" | "cancelled" | "expired-message" | "expired" | "failed";
  bury: "buried" | "expired" | "failed";
  replay: "ready" | "delayed" | "not-dead" | "unknown" | "refused" | "failed";
}

/** The words of success; a message that exists may be lost. */
export const ACCEPTED: readonly string[] = ["stored", "ready", "again", "exists", "cancelled", "delayed", "extended", "delivered", "buried", "expired-message"];

/** Verbs that wait as the topic requires, and verbs that wait as every topic of the shard requires. */
export const WRITES: readonly string[] = ["cancel", "finish", "operate", "put", "reschedule"];
export const GROUP_WRITES: readonly string[] = ["cancel_group", "shift_group"];

/** By stored number, from 1 on; the last four are finished. */
export const STATES = ["delayed", "ready", "leased", "dead", "delivered", "cancelled", "expired", "purged"] as const;
/** State of a message. */
export type State = (typeof STATES)[number];
/** An existing message in one of these states is not delivered. */
export const LOST: readonly string[] = ["cancelled", "expired", "purged"];

/** Flags of an envelope. */
export const FLAGS = { HASH: 1, EXPIRES: 2, BACKOFF: 4, GROUP: 8, HEADERS: 16, ZSTD: 32, DOOMED: 64, REASON: 128, RELATIVE: 256, LIFETIME: 4096, FIRST: 512, HELD: 1024, PAUSED: 2048, BLOCKS: 16384, BLOCKED: 32768 } as const;
/** Every flag above; further flags come from a later version. */
export const KNOWN_FLAGS = 57343;

/** For each kind of name the class of the characters, and the maximum number of bytes. */
export const NAMES = {
  id: [/^[^\u0000-\u001f\u007f-\u009f\p{Cs}]+$/u, 128],
  topic: [/^[A-Za-z0-9._\/-]+$/u, 128],
  group: [/^[^\u0000-\u001f\u007f-\u009f\p{Cs}]+$/u, 128],
  namespace: [/^[A-Za-z0-9_-]+$/u, 32],
  node: [/^[A-Za-z0-9_-]+$/u, 32],
  "header name": [/^[!-~]+$/u, 255],
  token: [/^[^\u0000-\u001f\u007f-\u009f\p{Cs}]+$/u, 128],
} as const;
export const GENERATED_ID = /^~[01][0-9a-f]{7}-[0-9a-f]{4}-7[0-9a-f]{3}(-[0-9a-f]{4}){2}[0-9a-f]{8}$/i;

/** Keys and channels of a shard. */
export const META = "meta";
export const NEVER = "never";
export const WAKE = "wake";
export const READY = "ready";
export const WORKERS = "workers:";
/** Returns a key or channel of a shard. */
export const keyOf = (namespace: string, shard: number, name: string): string => `{${namespace}:${shard}}:${name}`;

/** Forms of URLs: schemes, a host in words, its default port, the form in words, the parameters of the query. */
export const URLS = {
  single: { schemes: ["redis://", "rediss://"], host: "Redis", port: 6379, shape: "expected redis://[user[:password]@]host[:port][/db], rediss://… for TLS, or unix:///path[?db=N]", query: ["db"] },
  socket: { schemes: ["unix://", "redis+unix://"], host: "socket", port: 0, shape: "expected unix:///path[?db=N]", query: ["db", "user", "pass"] },
  sentinel: { schemes: ["redis+sentinel://", "rediss+sentinel://"], host: "sentinel", port: 26_379, shape: "expected redis+sentinel://host:port,host:port/service", query: ["db"] },
  cluster: { schemes: ["redis+cluster://", "rediss+cluster://"], host: "node of a cluster", port: 6379, shape: "expected redis+cluster://host:port,host:port", query: [] },
} as const;

/** Delay before the next attempt: one delay; first and longest; or one per attempt. */
export type Backoff = { kind: "fixed" | "exponential" | "list"; delaysMs: readonly number[] };

/** Settings of a topic. A missing field has the default. */
export interface Policy {
  /** Maximum attempts; 0 for no limit (at most 65535). Default 16. */
  maxAttempts?: number;
  /** How long a lease lasts (1ms to 1day). Default 30s. */
  leaseMs?: number;
  /** Delay before another attempt (1ms to 49days each). Default 1s..10m. */
  backoff?: Backoff;
  /** Time from due to expiry; 0 for never. Default 0s. */
  expireAfterMs?: number;
  /** How long a cancelled id is kept for deduplication. Default 1h. */
  rememberCancelledMs?: number;
  /** How long a finished id of the producer's own is kept for deduplication. Default 1m. */
  rememberOwnMs?: number;
  /** How long a finished generated id is kept for deduplication. Default 0s. */
  rememberGeneratedMs?: number;
  /**
   * Handling of a repeated put whose first try may have finished and been forgotten: deliver (perhaps twice) or refuse (perhaps
   * never). Default deliver.
   */
  repeats?: "deliver" | "refuse";
  /** Compression of payloads, by clients that compress: none, zstd, or zstd:ID of a dictionary. Default none. */
  codec?: "none" | "zstd" | `zstd:${number}`;
  /** Approximate number of events that each shard keeps for delayq log; 0 for none (at most 100000). Default 0. */
  history?: number;
  /** How long events are kept (at least 1s). Default 7days. */
  historyForMs?: number;
  /** How long a dead letter is kept before a sweep deletes it; 0 until it is purged or replayed. Default 0s. */
  deadForMs?: number;
  /** Maximum dead letters of each shard, of which sweeps delete the oldest; 0 for no limit. Default 0. */
  deadMax?: number;
  /**
   * Maximum messages of a group that are leased at the same time: 1 delivers a group in order, one after the other; 0 for no
   * limit (at most 65535). Default 0.
   */
  groupInFlight?: number;
  /**
   * Handling of a group's other messages while one of them has failed: pass (they are delivered meanwhile) or block (they wait
   * until it has finished). Default pass.
   */
  groupFailed?: "pass" | "block";
  /**
   * Maximum messages of a group that are handed out in a second, minute or hour, evenly: 5/s, 90/m, 1000/h; 0 for no limit.
   * Default 0.
   */
  groupRate?: "0" | `${number}/${"s" | "m" | "h"}`;
  /**
   * Order in which ready messages are handed out: ready (as they became ready) or fair (the groups take turns, so that many
   * messages of one group do not delay those of another). Default ready.
   */
  groupOrder?: "ready" | "fair";
  /**
   * Confirmation that puts, cancels and reschedules wait for: memory (none), disk (the master's append-only file, synced; needs
   * Redis 7.2), or replica:N (N replicas, 1 to 9, have the write). Default memory.
   */
  durability?: "memory" | "disk" | `replica:${number}`;
  /** Stops deliveries. Default false. */
  paused?: boolean;
  /** Maximum deliveries per second over all shards (1e-9 to 1e9 in each shard). Default unlimited. */
  rate?: number;
}

/** The form of a setting: field of `configure`, type, range, and the form of a word. */
export type SettingForm = { field: string; kind: string; least: number; most: number; word: RegExp };

export const SETTINGS: Record<keyof Policy, SettingForm> = {
  maxAttempts: { field: "max_attempts", kind: "count", least: 0, most: 65_535, word: /^()$/ },
  leaseMs: { field: "lease_ms", kind: "span", least: 1, most: 86_400_000, word: /^()$/ },
  backoff: { field: "backoff", kind: "backoff", least: 0, most: 0, word: /^()$/ },
  expireAfterMs: { field: "expire_after_ms", kind: "span", least: 0, most: 4_503_599_627_370_496, word: /^()$/ },
  rememberCancelledMs: { field: "remember_cancelled_ms", kind: "span", least: 0, most: 4_503_599_627_370_496, word: /^()$/ },
  rememberOwnMs: { field: "remember_own_ms", kind: "span", least: 0, most: 4_503_599_627_370_496, word: /^()$/ },
  rememberGeneratedMs: { field: "remember_generated_ms", kind: "span", least: 0, most: 4_503_599_627_370_496, word: /^()$/ },
  repeats: { field: "repeats", kind: "word", least: 0, most: 0, word: /^(deliver|refuse)$/ },
  codec: { field: "codec", kind: "word", least: 0, most: 0, word: /^(none|zstd|zstd:[0-9]{1,10})$/ },
  history: { field: "history", kind: "count", least: 0, most: 100_000, word: /^()$/ },
  historyForMs: { field: "history_for_ms", kind: "span", least: 1000, most: 4_503_599_627_370_496, word: /^()$/ },
  deadForMs: { field: "dead_for_ms", kind: "span", least: 0, most: 4_503_599_627_370_496, word: /^()$/ },
  deadMax: { field: "dead_max", kind: "count", least: 0, most: 4_294_967_295, word: /^()$/ },
  groupInFlight: { field: "group_in_flight", kind: "count", least: 0, most: 65_535, word: /^()$/ },
  groupFailed: { field: "group_failed", kind: "word", least: 0, most: 0, word: /^(pass|block)$/ },
  groupRate: { field: "group_rate", kind: "word", least: 0, most: 0, word: /^(0|[1-9][0-9]{0,6}\/[smh])$/ },
  groupOrder: { field: "group_order", kind: "word", least: 0, most: 0, word: /^(ready|fair)$/ },
  durability: { field: "durability", kind: "word", least: 0, most: 0, word: /^(memory|disk|replica:[1-9])$/ },
  paused: { field: "paused", kind: "flag", least: 0, most: 0, word: /^()$/ },
  rate: { field: "rate", kind: "rate", least: 1e-9, most: 1e9, word: /^()$/ },
};
