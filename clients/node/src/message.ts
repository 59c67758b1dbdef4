/** A message of a producer, and the encoding of a put. */

import * as crypto from "node:crypto";
import { dueMs, flagOf, listOf, optionsOf, shown, spanMs, textOf, wholeOf, wordOf, type Time } from "./arguments.js";
import { InvalidMessage, isGenerated, name, newId } from "./names.js";
import { FLAGS, MAX_ATTEMPTS, MAX_DELAY_MS, MAX_DELAYS, MAX_HEADER_BYTES, type Backoff } from "./protocol.js";

/** Minimum and maximum number of delays by kind of back-off. */
const DELAYS: Record<Backoff["kind"], readonly [number, number]> = { fixed: [1, 1], exponential: [2, 2], list: [1, MAX_DELAYS] };

/** A message for delivery at a due time on the Redis clock: `at`, or `afterMs` (0) from the put. */
export interface Message {
  topic: string;
  payload: Uint8Array | string;
  /** The producer's own id; generated if missing. Only a put with an own id may be repeated. */
  id?: string;
  at?: Time;
  afterMs?: number;
  group?: string;
  headers?: readonly (readonly [string, string])[];
  expires?: Time;
  /** Expires this long after the due time, in place of `expires`; a reschedule moves the expiry too. */
  expireAfterMs?: number;
  /** 0 selects the topic's limit. */
  maxAttempts?: number;
  backoff?: Backoff;
  /** Replaces a message with the same id, unless the message is leased. */
  replace?: boolean;
  /** Replaces; a pending message is due again at the new time, but at most this long after its first put. */
  debounceMs?: number;
  /**
   * Replaces; a pending message keeps its due time, and behind a delivery or a leased message the put is due at least this long
   * after the due time of that. Needs an id of your own.
   */
  throttleMs?: number;
  /** As `throttleMs`, but a put that meets a pending or leased message, or a delivery in that time, is dropped: "exists". */
  swallowMs?: number;
  /**
   * Replaces; a pending message keeps its due time unless the new time is later, or sooner. With "content" it always keeps the
   * due time: the put edits.
   */
  only?: "later" | "sooner" | "content";
  /** Replaces; a pending message keeps payload, headers and options. */
  keepContent?: boolean;
  /** Replaces only a pending message that is due at this time. */
  expected?: Time;
  /** Replaces only a pending message with this `contentHash`. */
  expectedContent?: string;
  /** Local time of the first attempt, for a repeat of a put with an unknown fate. */
  firstTried?: Time;
  /** Accepts times before 2001 or after 9999, most of which are seconds or microseconds mistaken for milliseconds. */
  pastOk?: boolean;
}

const HEAD_BYTES = 32;
const NOTHING = Buffer.alloc(0);
const FIELDS = "topic payload id at afterMs group headers expires expireAfterMs maxAttempts backoff replace debounceMs throttleMs swallowMs only keepContent expected expectedContent firstTried pastOk";

/** Encodes the due time, and checks payload and times. */
export function dueOf(message: Message): number | string {
  const { payload, at, afterMs = 0, pastOk } = optionsOf("a message", message, FIELDS);
  if (typeof payload === "string") textOf("payload", payload);
  else if (!(payload instanceof Uint8Array)) throw new InvalidMessage("a payload is text or bytes; JSON.stringify makes text of anything");
  const isPastOk = flagOf("pastOk", pastOk);
  if (at === undefined) return `+${spanMs("afterMs", afterMs)}`;
  if (message.afterMs !== undefined) throw new InvalidMessage("at and afterMs: a message has one due time");
  return dueMs("at", at, isPastOk);
}

/** Encodes replacement and first attempt; `aheadMs` is the lead of the Redis clock. */
export function putOptions(message: Message, aheadMs: number): string {
  const { replace, firstTried, pastOk } = message;
  const words = againOf(message);
  if (flagOf("replace", replace) || words.length > 0) words.unshift("replace");
  if (firstTried !== undefined) words.push(`tried=${dueMs("firstTried", firstTried, pastOk) + aheadMs}`);
  return words.join(" ");
}

function againOf(message: Message): string[] {
  const { id, debounceMs, throttleMs, swallowMs, only, keepContent, expected, expectedContent, pastOk } = message;
  const rule = debounceMs === undefined ? [] : [`within=${spanMs("debounceMs", debounceMs, 1)}`];
  if (throttleMs !== undefined) rule.push(`throttle=${spanMs("throttleMs", throttleMs, 1)}`);
  if (swallowMs !== undefined) rule.push(`swallow=${spanMs("swallowMs", swallowMs, 1)}`);
  if (only !== undefined) rule.push(wordOf("only", only, ["later", "sooner", "content"]));
  if (rule.length > 1) throw new InvalidMessage("debounceMs, throttleMs, swallowMs and only: a pending message has one due time");
  const isThrottled = throttleMs !== undefined || swallowMs !== undefined;
  if (isThrottled && (id === undefined || isGenerated(newId(id)))) {
    throw new InvalidMessage("throttleMs and swallowMs need an id of your own: a generated id meets no earlier message");
  }
  if (flagOf("keepContent", keepContent)) rule.push("keep");
  if (expected !== undefined) rule.push(`expected=${dueMs("expected", expected, pastOk)}`);
  if (expectedContent !== undefined) rule.push(`hash=${hashOf("expectedContent", expectedContent)}`);
  return rule;
}

function hashOf(option: string, hash: string): string {
  if (!/^[0-9a-f]{16}$/i.test(textOf(option, hash))) throw new InvalidMessage(`${option}: a content hash has 16 hex digits, not ${shown(hash)}`);
  return hash;
}

/** Encodes a put, as specified in docs/protocol.md; scripts fill in state, gen, due, at and the counts. */
export function envelopeOf(message: Message, ownId: boolean, maxPayloadBytes: number): Buffer {
  const { payload, expires, expireAfterMs, backoff, group, headers = [], maxAttempts = 0 } = message;
  if (expires !== undefined && expireAfterMs !== undefined) throw new InvalidMessage("expires and expireAfterMs: a message has one expiry");
  const block = listOf("headers", headers).length === 0 ? NOTHING : Buffer.concat(headers.flatMap(headerOf));
  if (block.length > MAX_HEADER_BYTES || Buffer.byteLength(payload) > maxPayloadBytes) {
    throw new InvalidMessage(`at most ${MAX_HEADER_BYTES} bytes of headers, ${maxPayloadBytes} of payload`);
  }
  const head = Buffer.alloc(HEAD_BYTES);
  const parts: Uint8Array[] = [head];
  let flags = 0;
  const add = (flag: number, field: Buffer): void => {
    flags |= flag;
    parts.push(field);
  };
  if (ownId) add(FLAGS.HASH, contentHash(message));
  if (expires !== undefined) add(FLAGS.EXPIRES, number(8, dueMs("expires", expires, message.pastOk)));
  if (backoff !== undefined) add(FLAGS.BACKOFF, sized(1, encodeBackoff(backoff)));
  if (group !== undefined) add(FLAGS.GROUP, sized(1, name("group", group)));
  if (expireAfterMs !== undefined) add(FLAGS.LIFETIME, number(8, spanMs("expireAfterMs", expireAfterMs, 1)));
  if (headers.length > 0) add(FLAGS.HEADERS, sized(2, block));
  head.writeUInt16BE(0x101, 0); // format and state
  head.writeUInt16BE(flags, 2);
  head.writeUInt16BE(wholeOf("maxAttempts", maxAttempts, 0, MAX_ATTEMPTS), HEAD_BYTES - 2);
  return Buffer.concat([...parts, bytesOf(payload)]);
}

/** Encodes a header, prefixed with lengths. */
function headerOf(header: readonly [string, string]): Buffer[] {
  if (listOf("a header", header).length !== 2) throw new InvalidMessage(`a header is [name, value], not ${shown(header)}`);
  const [key, value] = header;
  if (Buffer.byteLength(textOf("a header's value", value)) > MAX_HEADER_BYTES) throw new InvalidMessage(`at most ${MAX_HEADER_BYTES} bytes of headers`);
  return [sized(1, name("header name", key)), sized(2, value)];
}

/** Distinguishes a repeat of a put from another message with the same id; the due time is left out. */
export function contentHash({ topic, group = "", headers = [], payload }: Message): Buffer {
  return Buffer.from(sha256(sized(4, topic, group, ...headers.flat(), payload)).slice(0, 16), "hex");
}

/** Node 20.12 and newer hash without an object for each hash, in a quarter of the time. */
const sha256: (bytes: Buffer) => string = crypto.hash
  ? (bytes) => crypto.hash("sha256", bytes, "hex")
  : (bytes) => crypto.createHash("sha256").update(bytes).digest("hex");

export function encodeBackoff(backoff: Backoff): Buffer {
  const { kind, delaysMs } = optionsOf("a back-off", backoff, "kind delaysMs");
  const [fewest, most] = Object.hasOwn(DELAYS, kind) ? DELAYS[kind] : [1, 0];
  const delays = listOf("delaysMs", delaysMs);
  const isWhole = delays.every((ms) => Number.isInteger(ms) && ms >= 1 && ms <= MAX_DELAY_MS);
  const rises = kind !== "exponential" || delays[0]! <= delays[1]!;
  if (delays.length < fewest || delays.length > most || !isWhole || !rises) {
    throw new InvalidMessage(`backoff: ${shown(kind)} ${shown(delays)} is invalid: fixed has 1 delay, exponential 2 that rise, list 1 to ${MAX_DELAYS}, of 1 ms to 49 days`);
  }
  const code = Object.keys(DELAYS).indexOf(kind) + 1;
  return Buffer.concat([number(1, code), ...delays.map((ms) => number(4, ms))]);
}

/** Decodes a back-off; undefined for invalid bytes. */
export function decodeBackoff(spec: Buffer): Backoff | undefined {
  const kind = Object.keys(DELAYS)[spec[0]! - 1] as Backoff["kind"] | undefined;
  if (kind === undefined || spec.length % 4 !== 1) return undefined;
  return { kind, delaysMs: Array.from({ length: spec.length >> 2 }, (_, n) => spec.readUInt32BE(1 + 4 * n)) };
}

function number(size: 1 | 2 | 4 | 8, n: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(BigInt(n));
  return bytes.subarray(8 - size);
}

/** Returns each field behind its length. */
function sized(size: 1 | 2 | 4, ...fields: (string | Uint8Array)[]): Buffer {
  let total = 0;
  for (const field of fields) total += size + Buffer.byteLength(field);
  const bytes = Buffer.allocUnsafe(total);
  let at = 0;
  for (const field of fields) {
    const length = Buffer.byteLength(field);
    at = bytes.writeUIntBE(length, at, size);
    if (typeof field === "string") bytes.write(field, at);
    else bytes.set(field, at);
    at += length;
  }
  return bytes;
}

const bytesOf = (payload: string | Uint8Array): Uint8Array => (typeof payload === "string" ? Buffer.from(payload) : payload);
