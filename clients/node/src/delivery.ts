/** What a reserve hands out: messages under lease. */

import { idText, name } from "./names.js";

const FORMAT = 1;
const [HASH, EXPIRES, BACKOFF, GROUP, HEADERS, ZSTD] = [1, 2, 4, 8, 16, 32];

/** A stored message that cannot be read: malformed, or with a payload that cannot be restored. */
export class EnvelopeError extends Error {
  override name = "EnvelopeError";
}

/** The right to settle one delivery of one message. */
export interface Receipt {
  shard: number;
  raw: Buffer;
}

/** What is stored of a message. Its attempt and delivery count this one; times are on Redis's clock. */
export interface Stored {
  payload: Buffer;
  dueMs: number;
  attempt: number;
  delivery: number;
  maxAttempts: number;
  expiresMs: number | undefined;
  group: string | undefined;
  headers: [string, string][];
}

/** A message under lease. */
export interface Delivery extends Stored {
  receipt: Receipt;
  topic: string;
  id: string;
  readyUs: number;
  leaseEndMs: number;
}

/** Reads an envelope, of which docs/protocol.md has the bytes; and whether its payload is compressed. */
export function readEnvelope(stored: Buffer): { message: Stored; compressed: boolean } {
  if (stored[0]! > FORMAT) throw new EnvelopeError(`an envelope of format ${stored[0]}, newer than this client's ${FORMAT}`);
  let at = 0;
  const take = (n: number): Buffer => {
    at += n;
    if (at > stored.length) throw new EnvelopeError("malformed envelope: cut short");
    return stored.subarray(at - n, at);
  };
  const text = (size: 1 | 2): string => {
    const field = take(take(size).readUIntBE(0, size));
    if (!field.equals(Buffer.from(field.toString()))) throw new EnvelopeError("malformed envelope: text that is not UTF-8");
    return field.toString();
  };
  const head = take(32);
  const flags = head.readUInt16BE(2);
  take(flags & HASH! ? 8 : 0);
  const expiresMs = flags & EXPIRES! ? Number(take(8).readBigUInt64BE()) : undefined;
  take(flags & BACKOFF! ? take(1)[0]! : 0);
  const group = flags & GROUP! ? name("group", text(1)) : undefined;
  const end = flags & HEADERS! ? take(2).readUInt16BE() + at : 0;
  const headers: [string, string][] = [];
  while (at < end) headers.push([text(1), text(2)]);
  const message = {
    dueMs: Number(head.readBigUInt64BE(8)),
    attempt: Math.min(head.readUInt16BE(28) + 1, 65535),
    delivery: head.readUInt32BE(24) + 1,
    maxAttempts: head.readUInt16BE(30),
    payload: stored.subarray(at),
    ...{ expiresMs, group, headers },
  };
  return { message, compressed: (flags & ZSTD!) > 0 };
}

/** What a reserve answered behind its numbers: what is said of each lease, and the envelope. */
export function* leases(shard: number, topics: readonly string[], items: unknown[]) {
  const rest = items[Symbol.iterator]();
  const next = <T>(): T => rest.next().value as T;
  for (const place of rest as Iterable<number>) {
    const leaseEndMs = next<number>();
    for (let count = next<number>(); count > 0; count--) {
      const [readyUs, raw, stored] = [next<number>(), next<Buffer>(), next<Buffer>()];
      const id = idText(raw.subarray(raw.indexOf(":") + 1, -4));
      yield { lease: { receipt: { shard, raw }, topic: topics[place - 1]!, id, readyUs, leaseEndMs }, stored };
    }
  }
}
