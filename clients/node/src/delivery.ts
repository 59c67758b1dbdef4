/** What a reserve hands out: messages under lease. */

import { isUtf8 } from "node:buffer";
import { idText, InvalidMessage, name } from "./names.js";

const [HASH, EXPIRES, BACKOFF, GROUP, HEADERS, ZSTD] = [1, 2, 4, 8, 16, 32] as const;

/** The right to settle one delivery of one message. */
export type Receipt = { shard: number; raw: Buffer };

/** What a reserve says of a message beside its envelope; times are on Redis's clock. */
export type Lease = { receipt: Receipt; topic: string; id: string; readyUs: number; leaseEndMs: number };

/** A message under lease. Its attempt and delivery count this one; times are on Redis's clock. */
export type Delivery = Lease & Omit<ReturnType<typeof readEnvelope>, "compressed">;

/** Reads an envelope, of which docs/protocol.md has the bytes; and whether its payload is compressed. */
export function readEnvelope(stored: Buffer) {
  if (stored[0]! > 1) throw new InvalidMessage(`an envelope of the newer format ${stored[0]}`);
  let at = 0;
  const take = (n: number): Buffer => {
    at += n;
    if (at > stored.length) throw new InvalidMessage("malformed envelope: cut short");
    return stored.subarray(at - n, at);
  };
  const text = (size: 1 | 2): string => {
    const field = take(take(size).readUIntBE(0, size));
    if (!isUtf8(field)) throw new InvalidMessage("malformed envelope: text that is not UTF-8");
    return field.toString();
  };
  const head = take(32);
  const flags = head.readUInt16BE(2);
  take(flags & HASH ? 8 : 0);
  const expiresMs = flags & EXPIRES ? Number(take(8).readBigUInt64BE()) : undefined;
  take(flags & BACKOFF ? take(1)[0]! : 0);
  const group = flags & GROUP ? name("group", text(1)) : undefined;
  const end = flags & HEADERS ? take(2).readUInt16BE() + at : 0;
  const headers: [string, string][] = [];
  while (at < end) headers.push([text(1), text(2)]);
  return {
    dueMs: Number(head.readBigUInt64BE(8)),
    attempt: Math.min(head.readUInt16BE(28) + 1, 65535),
    delivery: head.readUInt32BE(24) + 1,
    maxAttempts: head.readUInt16BE(30),
    payload: stored.subarray(at),
    compressed: (flags & ZSTD) > 0,
    ...{ expiresMs, group, headers },
  };
}

/** What a reserve answered behind its numbers: what is said of each lease, and the envelope. */
export function* leases(shard: number, topics: readonly string[], items: any[]): Iterable<[Lease, Buffer]> {
  while (items.length > 0) {
    const [place, leaseEndMs, count] = items.splice(0, 3);
    for (let n = 0; n < count; n++) {
      const [readyUs, raw, stored] = items.splice(0, 3);
      const id = idText(raw.subarray(raw.indexOf(":") + 1, -4));
      yield [{ receipt: { shard, raw }, topic: topics[place - 1]!, id, readyUs, leaseEndMs }, stored];
    }
  }
}
