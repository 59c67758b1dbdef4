/** A topic's policy: what its messages fall back to, and how they flow. */

import { flagOf, optionsOf, shown, spanMs, textOf, wholeOf, wordOf } from "./arguments.js";
import { decodeBackoff, encodeBackoff, type Backoff } from "./message.js";
import { InvalidMessage } from "./names.js";

/** What is left out is at its default. */
export interface Policy {
  /** 0: no bound. Default 16. */
  maxAttempts?: number;
  /** 1 ms to a day. Default 30 s. */
  leaseMs?: number;
  /** Default exponential, 1 s to 10 min. */
  backoff?: Backoff;
  /** How long after its due time a message expires; 0: never, the default. */
  expireAfterMs?: number;
  /** How long a cancelled id is remembered. Default 1 h. */
  rememberCancelledMs?: number;
  /** How long a finished id of the producer's own is remembered. Default 60 s. */
  rememberOwnMs?: number;
  /** How long a finished generated id is remembered. Default 0. */
  rememberGeneratedMs?: number;
  /** What becomes of a repeated put that may have been forgotten. Default `deliver`. */
  repeats?: "deliver" | "refuse";
  /** How Rust's clients compress payloads: `none`, the default, `zstd` or `zstd:<dictionary>`. */
  codec?: string;
  /** Nothing is handed out. */
  paused?: boolean;
  /** At most so many messages a second are handed out, by all shards together. Default unbounded. */
  rate?: number;
  /** About how many events each shard keeps of what happened to messages, for `delayq log`: at most 100,000. Default 0. */
  history?: number;
  /** How long it keeps them: at least 1 s. Default 7 days. */
  historyForMs?: number;
  /** How long a dead letter is kept, until a sweep deletes it; 0: until it is purged or replayed. Default 0. */
  deadForMs?: number;
  /** How many dead letters each shard keeps: sweeps delete the oldest of more; 0: all. Default 0. */
  deadMax?: number;
  /** What writes are answered after: the master's append-only file, or so many replicas. Default `memory`. */
  durability?: "memory" | "disk" | `replica:${number}`;
}

/** What is to change: `null` sets a field back to its default, what is left out stays. */
export type PolicyPatch = { [Field in keyof Policy]?: Policy[Field] | null };

/** Those that are text. */
const TEXTS = ["repeats", "codec", "durability"];

const FORMS: Record<string, RegExp> = { codec: /^(none|zstd|zstd:\d{1,10})$/, durability: /^(memory|disk|replica:[1-9])$/ };
/** The most of what is counted. */
const COUNTS: Record<string, number> = { maxAttempts: 65_535, history: 100_000, deadMax: 2 ** 32 - 1 };
const LONGEST_SPAN_MS = 2 ** 52 - 1;
/** The least and the most of spans that are not from 0 to the longest. */
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

/** What `configure` takes, of one shard of so many. */
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

/** The part of one shard. */
function rateOf(rate: number, shards: number): string {
  const part = typeof rate === "number" ? rate / shards : NaN;
  if (part >= 1e-9 && part <= 1e9) return part.toFixed(9);
  throw new InvalidMessage(`rate is ${shown(rate)}: messages a second, above 0, at most 1e9 a shard`);
}

function formOf(field: string, value: string): string {
  if (FORMS[field]!.test(textOf(field, value))) return value;
  throw new InvalidMessage(`${field} is ${shown(value)}: ${FORMS[field]!.source}`);
}

/** What `describe` answered, of one shard of so many. */
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
