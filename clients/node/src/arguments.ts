/** Checks arguments by name before anything is sent: plain JavaScript has no other check. Nothing is coerced. */

import { inspect } from "node:util";
import { InvalidMessage, name } from "./names.js";
import { FIRST_MEANT_MS, LAST_MEANT_MS, MAX_LEASE_MS, MAX_REASON_BYTES, MAX_SPAN_MS, MAX_TIME_MS } from "./protocol.js";

/** A point in time: a Date, or milliseconds since the epoch. */
export type Time = Date | number;

/** Maximum delay of a Node timer; a longer one fires at once. */
export const LONGEST_TIMER_MS = 2 ** 31 - 1;
/** A lone surrogate, which UTF-8 cannot represent. */
const HALF = /\p{Cs}/u;

/** A time in ms; a fraction counts as the next one. */
function timeMs(what: string, time: Time): number {
  const ms = Math.ceil(time instanceof Date ? time.getTime() : numberOf(what, time));
  if (ms >= 1 && ms <= MAX_TIME_MS) return ms;
  throw new InvalidMessage(`${what} is ${shown(time)}: a Date, or 1 to ${MAX_TIME_MS} ms since the epoch`);
}

/** Returns a time in ms. Times before 2001 and after 9999 need `pastOk`. */
export function dueMs(what: string, time: Time, pastOk: boolean | undefined): number {
  const ms = timeMs(what, time);
  if ((ms >= FIRST_MEANT_MS && ms <= LAST_MEANT_MS) || pastOk) return ms;
  const [unit, meant] = ms < FIRST_MEANT_MS ? ["seconds", ms * 1000] : ["microseconds", Math.floor(ms / 1000)];
  const [read, other] = [ms, meant].map((one) => (one < 8.64e15 ? new Date(one).toISOString() : "later than any date"));
  const isLikely = meant >= FIRST_MEANT_MS && meant <= LAST_MEANT_MS;
  const instead = isLikely ? `if ${unit} were meant, give ${meant} (${other}); ` : "";
  throw new InvalidMessage(`${what}: ${ms} ms since the epoch is ${read}; ${instead}if that is meant, set pastOk`);
}

/** Returns a span in ms, `min` to `max`, rounded up. */
export function spanMs(what: string, span: number, min = 0, max = MAX_SPAN_MS): number {
  const ms = Math.ceil(numberOf(what, span));
  if (ms >= min && ms <= max) return ms;
  throw new InvalidMessage(`${what} is ${shown(span)}: milliseconds, at least ${min} and at most ${max}`);
}

export function differenceMs(what: string, difference: number): number {
  if (Number.isSafeInteger(difference)) return difference;
  throw new InvalidMessage(`${what} is ${shown(difference)}: whole milliseconds`);
}

/** Returns a lease in ms; undefined selects the topic's lease. */
export function leaseOf(leaseMs: number | undefined): number | undefined {
  return leaseMs === undefined ? undefined : spanMs("leaseMs", leaseMs, 1, MAX_LEASE_MS);
}

export function topicsOf(topics: readonly string[]): readonly string[] {
  if (listOf("topics", topics).length === 0) throw new InvalidMessage("topics is empty");
  for (const topic of topics) name("topic", topic);
  return [...topics];
}

export function wholeOf(what: string, value: number, min: number, max: number): number {
  if (Number.isInteger(value) && value >= min && value <= max) return value;
  throw new InvalidMessage(`${what} is ${shown(value)}: a whole number, ${min} to ${max}`);
}

/** Returns a boolean; the text "false" would be true. */
export function flagOf(what: string, value: boolean | undefined): boolean {
  if (value === undefined || typeof value === "boolean") return value === true;
  throw new InvalidMessage(`${what} is ${shown(value)}: true or false`);
}

/** Returns text without lone surrogates. */
export function textOf(what: string, text: string): string {
  if (typeof text !== "string") throw new InvalidMessage(`${what} is text, not ${shown(text)}`);
  if (HALF.test(text)) throw new InvalidMessage(`${what} has half of a character (a lone surrogate)`);
  return text;
}

/** Returns a reason for a dead letter, truncated to the maximum length. */
export function reasonOf(reason: string): string {
  return cutReason(textOf("reason", reason));
}

/** Truncates a reason at a character boundary. */
export function cutReason(reason: string): string {
  const bytes = Buffer.from(reason);
  let end = Math.min(bytes.length, MAX_REASON_BYTES);
  while (end < bytes.length && (bytes[end]! & 0xc0) === 0x80) end--;
  return bytes.toString("utf8", 0, end);
}

export function functionOf<F extends Function>(what: string, value: F): F {
  if (typeof value === "function") return value;
  throw new InvalidMessage(`${what} is a function, not ${shown(value)}`);
}

export function signalOf(what: string, signal: AbortSignal | undefined): AbortSignal | undefined {
  if (signal === undefined || signal instanceof AbortSignal) return signal;
  throw new InvalidMessage(`${what} is an AbortSignal, not ${shown(signal)}`);
}

/** Returns a list; a text would be read letter by letter. */
export function listOf<T>(what: string, list: readonly T[]): readonly T[] {
  if (Array.isArray(list)) return list;
  throw new InvalidMessage(`${what} is a list, not ${shown(list)}`);
}

export function wordOf<W extends string>(what: string, word: W, words: readonly W[]): W {
  if (words.includes(word)) return word;
  throw new InvalidMessage(`${what} is ${shown(word)}: ${words.join(", ")}`);
}

/** Refuses unknown fields, since a misspelt field would be ignored. */
export function optionsOf<T extends object>(what: string, options: T, fields: string): T {
  if (typeof options !== "object" || options === null || Array.isArray(options)) {
    throw new InvalidMessage(`${what} is an object { ${fields.replaceAll(" ", ", ")} }, not ${shown(options)}`);
  }
  const known = fieldsOf(fields);
  const unknown = Object.keys(options).find((field) => !known.has(field));
  if (unknown === undefined) return options;
  throw new InvalidMessage(`${what} has no ${unknown.slice(0, 40)}; it has ${fields.replaceAll(" ", ", ")}`);
}

const sets = new Map<string, ReadonlySet<string>>();

/** Splits a list of fields once: each put checks its own. */
function fieldsOf(fields: string): ReadonlySet<string> {
  const set = sets.get(fields) ?? new Set(fields.split(" "));
  sets.set(fields, set);
  return set;
}

/** Returns the ends of a range of times in ms, unlimited by default. */
export function rangeOf(range: { from?: Time; to?: Time; pastOk?: boolean }): [number, number] {
  const { from = 0, to = MAX_TIME_MS, pastOk } = optionsOf("a range", range, "from to pastOk");
  const isPastOk = flagOf("pastOk", pastOk);
  return [from === 0 ? 0 : dueMs("from", from, isPastOk), to === MAX_TIME_MS ? MAX_TIME_MS : dueMs("to", to, isPastOk)];
}

function numberOf(what: string, value: number): number {
  if (typeof value === "number" && !Number.isNaN(value)) return value;
  throw new InvalidMessage(`${what} is ${shown(value)}, not a number of milliseconds`);
}

/** Formats a value for an error, at most 43 characters. */
export function shown(value: unknown): string {
  if (value instanceof Date) return String(value);
  const text = typeof value === "string" ? JSON.stringify(value.slice(0, 41)) : inspect(value, { depth: 0, breakLength: Infinity, maxStringLength: 40 });
  return text.length > 43 ? `${text.slice(0, 40)}…` : text;
}
