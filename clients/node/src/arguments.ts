/** What a caller hands over, checked by name before anything is sent. Plain JavaScript has no other check. */

import { InvalidMessage, name } from "./names.js";

/** A point in time: a Date, or milliseconds since the epoch. */
export type Time = Date | number;

/** Earlier times are mostly seconds that were meant to be milliseconds. */
const DOUBTFUL_BEFORE_MS = 978_307_200_000;
const LATEST_MS = 2 ** 53 - 1;

/** A time in ms; a fraction counts as the next one. */
export function timeMs(what: string, time: Time): number {
  const ms = Math.ceil(time instanceof Date ? time.getTime() : numberOf(what, time));
  if (ms >= 1 && ms <= LATEST_MS) return ms;
  throw new InvalidMessage(`${what} is ${time}: a Date, or 1 to ${LATEST_MS} ms since the epoch`);
}

/** A time in ms that does not look like one in seconds, unless `pastOk`. */
export function dueMs(what: string, time: Time, pastOk: boolean | undefined): number {
  const ms = timeMs(what, time);
  if (ms >= DOUBTFUL_BEFORE_MS || pastOk) return ms;
  const [read, meant] = [ms, ms * 1000].map((one) => (one < 8.64e15 ? new Date(one).toISOString() : "later than any date"));
  const seconds = ms * 1000 >= DOUBTFUL_BEFORE_MS ? `if seconds were meant, give ${ms * 1000} (${meant}); ` : "";
  throw new InvalidMessage(`${what}: ${ms} ms since the epoch is ${read}; ${seconds}if that is meant, set pastOk`);
}

/** A span in ms, at least `min`; a fraction counts as the next one. */
export function spanMs(what: string, span: number, min = 0): number {
  const ms = Math.ceil(numberOf(what, span));
  if (ms >= min && ms <= LATEST_MS) return ms;
  throw new InvalidMessage(`${what} is ${span}: milliseconds, at least ${min}`);
}

/** A lease in ms; undefined for what the topic says. */
export function leaseOf(leaseMs: number | undefined): number | undefined {
  return leaseMs === undefined ? undefined : spanMs("leaseMs", leaseMs, 1);
}

/** The topics of a reserve. */
export function topicsOf(topics: readonly string[]): readonly string[] {
  if (listOf("topics", topics).length === 0) throw new InvalidMessage("topics is empty");
  for (const topic of topics) name("topic", topic);
  return topics;
}

/** A number of messages. */
export function countOf(what: string, count: number, max: number): number {
  if (Number.isInteger(count) && count >= 1 && count <= max) return count;
  throw new InvalidMessage(`${what} is ${shown(count)}: 1 to ${max}`);
}

/** A list; a text would be read letter by letter. */
export function listOf<T>(what: string, list: readonly T[]): readonly T[] {
  if (Array.isArray(list)) return list;
  throw new InvalidMessage(`${what} is a list, not ${shown(list)}`);
}

/** An object that has only these fields: a misspelt one would be ignored. */
export function optionsOf<T extends object>(what: string, options: T, fields: string): T {
  if (typeof options !== "object" || options === null || Array.isArray(options)) {
    throw new InvalidMessage(`${what} is an object { ${fields.replaceAll(" ", ", ")} }, not ${shown(options)}`);
  }
  const unknown = Object.keys(options).find((field) => !fields.split(" ").includes(field));
  if (unknown === undefined) return options;
  throw new InvalidMessage(`${what} has no ${unknown}; it has ${fields.replaceAll(" ", ", ")}`);
}

function numberOf(what: string, value: number): number {
  if (typeof value === "number" && !Number.isNaN(value)) return value;
  throw new InvalidMessage(`${what} is ${shown(value)}, not a number of milliseconds`);
}

function shown(value: unknown): string {
  const text = typeof value === "string" ? JSON.stringify(value) : String(value);
  return text.length > 40 ? `${text.slice(0, 40)}…` : text;
}
