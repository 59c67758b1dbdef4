/** A message as its producer hands it over, and what a put sends of it. */

import { createHash } from "node:crypto";
import { InvalidMessage, name } from "./names.js";

export const MAX_PAYLOAD_BYTES = 1024 * 1024;
const MAX_HEADER_BYTES = 16 * 1024;
/** How many delays each kind of back-off has, at least and at most. */
const DELAYS = { fixed: [1, 1], exponential: [2, 2], list: [1, 32] } as const;

/** How long a message rests before it is tried again: one delay, the first and the longest, or one a try. */
export type Backoff = { kind: keyof typeof DELAYS; delaysMs: readonly number[] };

/** A message to be delivered at its due time: at `atMs`, or `afterMs` (0) from the put, on Redis's clock. */
export interface Message {
  topic: string;
  payload: Buffer | string;
  /** The producer's own. Without one it is generated; a put may be repeated only under one that was given. */
  id?: string;
  atMs?: number;
  afterMs?: number;
  group?: string;
  headers?: readonly (readonly [string, string])[];
  expiresMs?: number;
  /** 0: as its topic says. */
  maxAttempts?: number;
  backoff?: Backoff;
  /** Takes the place of a message with the same id, unless that one is leased. */
  replace?: boolean;
  /** A repeat of a put whose fate is unknown: when it was first tried, in ms, on this host's clock. */
  firstTriedMs?: number;
}

/** What a put says of a replace and of a repeat; Redis's clock is ahead of this host's by so much. */
export function optionsOf({ replace, firstTriedMs }: Message, aheadMs: number): string {
  const triedMs = firstTriedMs === undefined ? 0 : firstTriedMs + aheadMs;
  return (replace ? "replace" : "") + (triedMs ? ` tried=${triedMs}` : "");
}

/** What a put sends (docs/protocol.md has the bytes); scripts fill in state, gen, due, at and the counts. */
export function envelopeOf(message: Message, ownId: boolean, mostPayloadBytes: number): Buffer {
  const { payload, expiresMs, backoff, group, headers = [], maxAttempts = 0 } = message;
  const texts = headers.flatMap(([key, value]) => [sized(1, name("header name", key)), sized(2, value)]);
  const block = Buffer.concat(texts);
  if (block.length > MAX_HEADER_BYTES || Buffer.byteLength(payload) > mostPayloadBytes) {
    throw new InvalidMessage(`at most ${MAX_HEADER_BYTES} bytes of headers, ${mostPayloadBytes} of payload`);
  }
  const fields = [
    ownId && contentHash(message), // each by its flag: 1, 2, 4, 8, 16
    expiresMs !== undefined && number(8, expiresMs),
    backoff && sized(1, encodeBackoff(backoff)),
    group !== undefined && sized(1, name("group", group)),
    headers.length > 0 && sized(2, block),
  ];
  const flags = fields.reduce<number>((sum, field, n) => sum | (field ? 1 << n : 0), 0);
  const head = [Buffer.of(1, 1), number(2, flags), Buffer.alloc(26), number(2, maxAttempts)];
  return Buffer.concat([...head, ...fields.flatMap((field) => field || []), Buffer.from(payload as string)]);
}

/** What tells the repeat of a put from another message with the same id; the due time is left out. */
export function contentHash({ topic, group = "", headers = [], payload }: Message): Buffer {
  const fields = [topic, group, ...headers.flat(), payload].map((field) => sized(4, field));
  return createHash("sha256").update(Buffer.concat(fields)).digest().subarray(0, 8);
}

function encodeBackoff({ kind, delaysMs: delays }: Backoff): Buffer {
  const [fewest, most] = DELAYS[kind];
  const rises = kind !== "exponential" || delays[0]! <= delays[1]!;
  if (delays.length < fewest || delays.length > most || Math.min(...delays) < 1 || !rises) {
    throw new InvalidMessage(`${kind} ${delays} is no back-off: delays are 1 ms to 49 days`);
  }
  const code = Object.keys(DELAYS).indexOf(kind) + 1;
  return Buffer.concat([number(1, code), ...delays.map((ms) => number(4, ms))]);
}

function number(size: 1 | 2 | 4 | 8, n: number): Buffer {
  if (!Number.isSafeInteger(n) || n < 0 || n >= 256 ** size) throw new InvalidMessage(`${n} is out of range`);
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(BigInt(n));
  return bytes.subarray(8 - size);
}

/** A field behind its length. */
function sized(size: 1 | 2 | 4, field: string | Buffer): Buffer {
  return Buffer.concat([number(size, Buffer.byteLength(field)), Buffer.from(field as string)]);
}
