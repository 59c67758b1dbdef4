/** Policies of topics: defaults for messages, and flow control. */

import { flagOf, optionsOf, shown, spanMs, wholeOf } from "./arguments.js";
import { decodeBackoff, encodeBackoff } from "./message.js";
import { InvalidMessage } from "./names.js";
import { SETTINGS, type Backoff, type Policy, type SettingForm } from "./protocol.js";

export type { Policy };

/** A change of a policy: `null` resets a field to the default, missing fields do not change. */
export type PolicyPatch = { [Field in keyof Policy]?: Policy[Field] | null };

/** Encodes a patch for `configure`, in one of so many shards. */
export function settingsOf(patch: PolicyPatch, shards: number): (string | Buffer)[] {
  optionsOf("a policy", patch, Object.keys(SETTINGS).join(" "));
  return Object.entries(patch).flatMap(([field, value]) => {
    const form = SETTINGS[field as keyof Policy];
    return value === undefined ? [] : [form.field, value === null ? "" : settingOf(field, form, value, shards)];
  });
}

function settingOf(field: string, form: SettingForm, value: unknown, shards: number): string | Buffer {
  const { kind, least, most, word } = form;
  if (kind === "backoff") return encodeBackoff(value as Backoff);
  if (kind === "flag") return flagOf(field, value as boolean) ? "1" : "";
  if (kind === "count") return String(wholeOf(field, value as number, least, most));
  if (kind === "span") return String(spanMs(field, value as number, least, most));
  if (kind === "rate") return rateOf(field, form, value as number, shards);
  if (typeof value === "string" && word.test(value)) return value;
  throw new InvalidMessage(`${field} is ${shown(value)}: ${word.source}`);
}

function rateOf(field: string, { least, most }: SettingForm, rate: number, shards: number): string {
  const part = typeof rate === "number" ? rate / shards : NaN;
  if (part >= least && part <= most) return part.toFixed(12);
  throw new InvalidMessage(`${field} is ${shown(rate)}: messages a second, ${least} to ${most} in each shard`);
}

/** Decodes the reply of `describe` of one shard. */
export function policyOf(fields: readonly Buffer[], shards: number): Policy {
  const policy: Record<string, unknown> = {};
  for (const [field, form] of Object.entries(SETTINGS)) {
    const at = fields.findIndex((one, n) => n % 2 === 0 && String(one) === form.field);
    if (at >= 0) policy[field] = decoded(form.kind, fields[at + 1]!, shards);
  }
  return policy;
}

function decoded(kind: string, value: Buffer, shards: number): unknown {
  if (kind === "backoff") return decodeBackoff(value);
  if (kind === "flag") return true;
  if (kind === "rate") return Number((Number(value) * shards).toPrecision(9));
  return kind === "word" ? String(value) : Number(value);
}
