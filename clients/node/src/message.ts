/** A message as its producer hands it over, and what a put sends of it. */

import { createHash } from "node:crypto";
import { InvalidMessage, name } from "./names.js";

export const MAX_PAYLOAD_BYTES = 1024 * 1024;
const MAX_HEADER_BYTES = 16 * 1024;
const MOST_DELAYS = { fixed: 1, exponential: 2, list: 32 };

/** How long a message rests before it is tried again: one delay, the first and the longest, or one a try. */
export interface Backoff {
  kind: keyof typeof MOST_DELAYS;
  delaysMs: readonly number[];
}

/** A message to be delivered at its due time: `atMs`, or `afterMs` from the put (0), both on Redis's clock. */
export interface Message {
  topic: string;
  payload: Buffer | string;
  /** The producer's own. Without one it is generated; a put may be repeated only under an id that was given. */
  id?: string | undefined;
  atMs?: number | undefined;
  afterMs?: number | undefined;
  group?: string | undefined;
  headers?: readonly (readonly [string, string])[] | undefined;
  expiresMs?: number | undefined;
  /** 0: as its topic says. */
  maxAttempts?: number | undefined;
  backoff?: Backoff | undefined;
  /** Takes the place of a message with the same id, unless that one is leased. */
  replace?: boolean | undefined;
  /** A repeat of a put whose fate is unknown: when it was first tried, ms since the epoch. */
  firstTriedMs?: number | undefined;
}

/** What a put sends: scripts fill in state, gen, due, at, delivery and attempt. docs/protocol.md has the bytes. */
export function envelopeOf(message: Message, ownId: boolean, mostPayloadBytes: number): Buffer {
  const { payload, expiresMs, backoff, group, headers = [], maxAttempts = 0 } = message;
  const block = Buffer.concat(headers.flatMap(([key, value]) => [short(name("header name", key)), long(value)]));
  if (block.length > MAX_HEADER_BYTES || Buffer.byteLength(payload) > mostPayloadBytes) {
    throw new InvalidMessage(`at most ${MAX_HEADER_BYTES} bytes of headers, and ${mostPayloadBytes} of payload`);
  }
  const none = Buffer.alloc(0);
  const fields = [
    ownId ? contentHash(message) : none, // each by its flag: 1, 2, 4, 8, 16
    expiresMs === undefined ? none : number(8, expiresMs),
    backoff === undefined ? none : short(encodeBackoff(backoff)),
    group === undefined ? none : short(name("group", group)),
    headers.length > 0 ? long(block) : none,
  ];
  const flags = fields.reduce((sum, field, n) => sum | (field.length > 0 ? 1 << n : 0), 0);
  const head = [Buffer.of(1, 1), number(2, flags), Buffer.alloc(26), number(2, maxAttempts)];
  return Buffer.concat([...head, ...fields, Buffer.from(payload as string)]);
}

/** What tells the repeat of a put from another message with the same id; the due time is left out. */
export function contentHash({ topic, group = "", headers = [], payload }: Message): Buffer {
  const hash = createHash("sha256");
  for (const field of [topic, group, ...headers.flat(), payload]) {
    hash.update(number(4, Buffer.byteLength(field))).update(field);
  }
  return hash.digest().subarray(0, 8);
}

function encodeBackoff({ kind, delaysMs: delays }: Backoff): Buffer {
  const most = MOST_DELAYS[kind];
  const count = delays.length === most || (kind === "list" && delays.length >= 1 && delays.length < most);
  if (!count || Math.min(...delays) < 1 || (most === 2 && delays[0]! > delays[1]!)) {
    throw new InvalidMessage("a back-off is 1 ms to 49 days, the first no longer than the longest; a list has 1 to 32");
  }
  return Buffer.concat([Buffer.of(Object.keys(MOST_DELAYS).indexOf(kind) + 1), ...delays.map((ms) => number(4, ms))]);
}

function number(size: 1 | 2 | 4 | 8, n: number): Buffer {
  if (!Number.isSafeInteger(n) || n < 0 || n >= 2 ** (8 * size)) throw new InvalidMessage(`${n} is out of range`);
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(BigInt(n));
  return bytes.subarray(8 - size);
}

function short(field: string | Buffer): Buffer {
  return Buffer.concat([number(1, Buffer.byteLength(field)), Buffer.from(field as string)]);
}

function long(field: string | Buffer): Buffer {
  return Buffer.concat([number(2, Buffer.byteLength(field)), Buffer.from(field as string)]);
}
