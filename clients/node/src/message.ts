/** A message as its producer hands it over, and what a put carries of it. */

import { createHash } from "node:crypto";
import { encode, type Backoff } from "./envelope.js";
import { InvalidMessage, MessageId, printable, topicName } from "./ids.js";

export const MAX_PAYLOAD_BYTES = 1024 * 1024;
const MAX_HEADER_BYTES = 16 * 1024;

/** A message to be delivered at its due time: `atMs`, or `afterMs` from the put (0), both on Redis's clock. */
export interface Message {
  topic: string;
  payload: Buffer | string;
  /** The producer's own id as text, an id as it was generated, or none: then one is generated. */
  id?: string | MessageId | undefined;
  atMs?: number | undefined;
  afterMs?: number | undefined;
  group?: string | undefined;
  headers?: [string, string][] | undefined;
  expiresMs?: number | undefined;
  /** 0: as its topic says. */
  maxAttempts?: number | undefined;
  backoff?: Backoff | undefined;
  /** Takes the place of a message with the same id, unless that one is leased. */
  replace?: boolean | undefined;
  /** A repeat of a put whose fate is unknown: when it was first tried, ms since the epoch. */
  firstTriedMs?: number | undefined;
}

function need(holds: boolean, rule: string): void {
  if (!holds) throw new InvalidMessage(rule);
}

function isTime(ms: number): boolean {
  return Number.isSafeInteger(ms) && ms >= 0;
}

/** Refuses what no deployment takes, before anything is sent. */
export function check(message: Message, mostPayloadBytes: number): void {
  const { atMs, afterMs = 0, expiresMs, headers = [], maxAttempts = 0, backoff } = message;
  topicName(message.topic);
  if (message.group !== undefined) printable("group", message.group);
  const size = Buffer.byteLength(message.payload);
  need(size <= mostPayloadBytes, `the payload has ${size} bytes; at most ${mostPayloadBytes} are allowed`);
  need(headers.every(([name]) => /^[!-~]{1,255}$/.test(name)), "a header's name is 1 to 255 printable characters");
  const headerBytes = headers.reduce((sum, [name, value]) => sum + name.length + Buffer.byteLength(value) + 3, 0);
  need(headerBytes <= MAX_HEADER_BYTES, `the headers have ${headerBytes} bytes; at most ${MAX_HEADER_BYTES} are allowed`);
  need(atMs === undefined || (isTime(atMs) && atMs > 0), `the due time ${atMs} ms is not between 1 and 2^53 - 1`);
  need(isTime(afterMs), `the delay ${afterMs} ms is no whole number of ms from 0`);
  need(expiresMs === undefined || isTime(expiresMs), `the expiry ${expiresMs} ms is no time`);
  need(atMs === undefined || expiresMs === undefined || expiresMs > atMs, "it expires no later than it is due");
  need(Number.isInteger(maxAttempts) && maxAttempts >= 0 && maxAttempts < 65536, "attempts are 0 to 65535");
  if (backoff) checkBackoff(backoff);
}

function checkBackoff({ kind, delaysMs }: Backoff): void {
  const most = { fixed: 1, exponential: 2, list: 32 }[kind];
  const fits = delaysMs.length <= most && delaysMs.length >= (kind === "list" ? 1 : most);
  const each = delaysMs.every((ms) => Number.isInteger(ms) && ms >= 1 && ms < 2 ** 32);
  need(fits && each, "a back-off is 1 ms to 49 days; a list has 1 to 32 of them");
  need(kind !== "exponential" || delaysMs[0]! <= delaysMs[1]!, "the first delay is not longer than the longest");
}

/** What tells the repeat of a put from another message with the same id; the due time is left out. */
export function contentHash(message: Message): Buffer {
  const hash = createHash("sha256");
  const texts = [message.topic, message.group ?? "", ...(message.headers ?? []).flat()];
  for (const field of [...texts, message.payload]) {
    const bytes = Buffer.from(field as string);
    const length = Buffer.alloc(4);
    length.writeUInt32BE(bytes.length);
    hash.update(length).update(bytes);
  }
  return hash.digest().subarray(0, 8);
}

/** What a put sends: scripts fill in state, gen, due, at, delivery and attempt. */
export function envelopeOf(message: Message, id: MessageId): Buffer {
  return encode({
    ...{ state: "delayed", gen: 0, dueMs: 0, atMs: 0, delivery: 0, attempt: 0, doomed: false, zstd: false },
    maxAttempts: message.maxAttempts ?? 0,
    hash: id.generated ? undefined : contentHash(message),
    expiresMs: message.expiresMs,
    backoff: message.backoff,
    group: message.group,
    headers: message.headers ?? [],
    payload: Buffer.from(message.payload as string),
  });
}

export function dueOf(message: Message): string {
  return message.atMs === undefined ? `+${message.afterMs ?? 0}` : String(message.atMs);
}

export function optionsOf(message: Message): string {
  const tried = message.firstTriedMs === undefined ? [] : [`tried=${message.firstTriedMs}`];
  return [...(message.replace ? ["replace"] : []), ...tried].join(" ");
}
