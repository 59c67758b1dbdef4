/** Policies of topics: defaults for messages, and flow control. */

import { flagOf, optionsOf, shown, spanMs, textOf, wholeOf, wordOf } from "./arguments.js";
import { decodeBackoff, encodeBackoff, type Backoff } from "./message.js";
import { InvalidMessage } from "./names.js";

/** A missing field has the default. */
export interface Policy {
  /** Maximum attempts; 0 means no limit. Default 16. */
  maxAttempts?: number;
  /** 1 ms to 24 h. Default 30 s. */
  leaseMs?: number;
  /** Default exponential, 1 s to 10 min. */
  backoff?: Backoff;
  /** Time from due time to expiry; 0, the default, means never. */
  expireAfterMs?: number;
  /** Retention of cancelled ids for deduplication. Default 1 h. */
  rememberCancelledMs?: number;
  /** Retention of other finished own ids. Default 60 s. */
  rememberOwnMs?: number;
  /** Retention of finished generated ids. Default 0. */
  rememberGeneratedMs?: number;
  /** Handling of a repeated put whose first attempt may be forgotten. Default `deliver`. */
  repeats?: "deliver" | "refuse";
  /** Compression of Rust clients: `none` (default), `zstd` or `zstd:<dictionary>`. */
  codec?: string;
  /** Stops deliveries. */
  paused?: boolean;
  /** Maximum deliveries per second over all shards. Default unlimited. */
  rate?: number;
  /** Approximate number of events per shard kept for `delayq log`: at most 100,000. Default 0. */
  history?: number;
  /** Retention of events: at least 1 s. Default 7 days. */
  historyForMs?: number;
  /** Retention of dead letters; 0, the default, keeps dead letters until purged or replayed. */
  deadForMs?: number;
  /** Maximum dead letters per shard, oldest deleted first; 0, the default, means no limit. */
  deadMax?: number;
  /** Confirmation required for writes: append-only file of the master, or a number of replicas. Default `memory`. */
  durability?: "memory" | "disk" | `replica:${number}`;
}

/** A change of a policy: `null` resets a field to the default, missing fields do not change. */
export type PolicyPatch = { [Field in keyof Policy]?: Policy[Field] | null };

const TEXTS = ["repeats", "codec", "durability"];

const FORMS: Record<string, RegExp> = { codec: /^(none|zstd|zstd:\d{1,10})$/, durability: /^(memory|disk|replica:[1-9])$/ };
const COUNTS: Record<string, number> = { maxAttempts: 65_535, history: 100_000, deadMax: 2 ** 32 - 1 };
const LONGEST_SPAN_MS = 2 ** 52 - 1;
/** Ranges of spans other than 0 to the longest. */
const SPANS: Record<string, [number, number]> = { leaseMs: [1, 86_400_000], historyForMs: [1_000, LONGEST_SPAN_MS] };

const FIELDS: Record<keyof Policy, string> = {
  maxAttempts: "max_attempts",
  leaseMs: "lease_ms",
  backoff: "backoff",
  expireAfterMs: "expire_after_ms",
  rememberCancelledMs: "remember_cancelled_ms",
  rememberOwnMs: "remember_own_ms",
  rememberGeneratedMs: "remember_generated_ms",
  repeats: "repeats",
  codec: "codec",
  paused: "paused",
  rate: "rate",
  history: "history",
  historyForMs: "history_for_ms",
  deadForMs: "dead_for_ms",
  deadMax: "dead_max",
  durability: "durability",
};

/** Encodes a patch for `configure`, in one of so many shards. */
export function settingsOf(patch: PolicyPatch, shards: number): (string | Buffer)[] {
  optionsOf("a policy", patch, Object.keys(FIELDS).join(" "));
  return Object.entries(patch).flatMap(([field, value]) =>
    value === undefined ? [] : [FIELDS[field as keyof Policy], settingOf(field, value, shards)],
  );
}

function settingOf(field: string, value: NonNullable<unknown> | null, shards: number): string | Buffer {
  if (value === null) return "";
  if (field === "backoff") return encodeBackoff(value as Backoff);
  if (field === "paused") return flagOf(field, value as boolean) ? "1" : "";
  if (field === "rate") return rateOf(value as number, shards);
  if (field === "repeats") return wordOf(field, value as string, ["deliver", "refuse"]);
  if (TEXTS.includes(field)) return formOf(field, value as string);
  if (Object.hasOwn(COUNTS, field)) return String(wholeOf(field, value as number, 0, COUNTS[field]!));
  const [least, most] = SPANS[field] ?? [0, LONGEST_SPAN_MS];
  return String(spanMs(field, value as number, least, most));
}

function rateOf(rate: number, shards: number): string {
  const part = typeof rate === "number" ? rate / shards : NaN;
  if (part >= 1e-9 && part <= 1e9) return part.toFixed(9);
  throw new InvalidMessage(`rate is ${shown(rate)}: messages a second, above 0, at most 1e9 a shard`);
}

function formOf(field: string, value: string): string {
  if (FORMS[field]!.test(textOf(field, value))) return value;
  throw new InvalidMessage(`${field} is ${shown(value)}: ${FORMS[field]!.source}`);
}

/** Decodes the reply of `describe` of one shard. */
export function policyOf(fields: readonly Buffer[], shards: number): Policy {
  const policy: Record<string, unknown> = {};
  for (const [field, name] of Object.entries(FIELDS)) {
    const at = fields.findIndex((one, n) => n % 2 === 0 && String(one) === name);
    if (at < 0) continue;
    const value = fields[at + 1]!;
    if (field === "backoff") policy[field] = decodeBackoff(value);
    else if (field === "paused") policy[field] = true;
    else if (field === "rate") policy[field] = Number((Number(value) * shards).toPrecision(9));
    else policy[field] = TEXTS.includes(field) ? String(value) : Number(value);
  }
  return policy;
}
