/** The envelope: how a message is stored. docs/protocol.md has it byte by byte. */

import { InvalidMessage, printable } from "./ids.js";

const FORMAT = 1;
const STATES = ["delayed", "ready", "leased", "dead", "delivered", "cancelled", "expired", "purged"] as const;
const KINDS = ["fixed", "exponential", "list"] as const;
const [HASH, EXPIRES, BACKOFF, GROUP, HEADERS, ZSTD, DOOMED, REASON] = [1, 2, 4, 8, 16, 32, 64, 128] as const;

export type State = (typeof STATES)[number];

/** How long a message rests before it is tried again: one delay, the first and the longest, or one a try. */
export interface Backoff {
  kind: (typeof KINDS)[number];
  delaysMs: number[];
}

/** A stored message, or the marker of one that is over. Times are ms since the epoch, on Redis's clock. */
export interface Envelope {
  state: State;
  gen: number;
  dueMs: number;
  /** When it came into its state; for a leased one, when the lease ends. */
  atMs: number;
  delivery: number;
  attempt: number;
  maxAttempts: number;
  doomed: boolean;
  /** The payload is a zstd frame. */
  zstd: boolean;
  hash?: Buffer | undefined;
  expiresMs?: number | undefined;
  backoff?: Backoff | undefined;
  group?: string | undefined;
  headers: [string, string][];
  payload: Buffer;
  reason?: string | undefined;
}

/** Bytes that are no envelope of a format known here; `newer` where a later version wrote them. */
export class EnvelopeError extends Error {
  override name = "EnvelopeError";

  constructor(
    message: string,
    readonly newer = false,
  ) {
    super(message);
  }
}

function short(field: Buffer): Buffer {
  return Buffer.concat([Buffer.of(field.length), field]);
}

function long(field: Buffer): Buffer {
  return Buffer.concat([Buffer.of(field.length >> 8, field.length & 255), field]);
}

function time(ms: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(BigInt(ms));
  return bytes;
}

function encodeBackoff(backoff: Backoff): Buffer {
  const bytes = Buffer.alloc(1 + 4 * backoff.delaysMs.length, KINDS.indexOf(backoff.kind) + 1);
  backoff.delaysMs.forEach((ms, i) => bytes.writeUInt32BE(ms, 1 + 4 * i));
  return bytes;
}

/** The stored form. */
export function encode(envelope: Envelope): Buffer {
  const { hash, expiresMs, backoff, group, headers, reason } = envelope;
  const block = headers.flatMap(([name, value]) => [short(Buffer.from(name)), long(Buffer.from(value))]);
  const fields: [number, Buffer | undefined][] = [
    [HASH, hash],
    [EXPIRES, expiresMs === undefined ? undefined : time(expiresMs)],
    [BACKOFF, backoff && short(encodeBackoff(backoff))],
    [GROUP, group === undefined ? undefined : short(Buffer.from(group))],
    [HEADERS, headers.length > 0 ? long(Buffer.concat(block)) : undefined],
  ];
  let flags = (envelope.zstd ? ZSTD : 0) | (envelope.doomed ? DOOMED : 0) | (reason === undefined ? 0 : REASON);
  for (const [flag, field] of fields) if (field) flags |= flag;
  const head = Buffer.alloc(32);
  head[0] = FORMAT;
  head[1] = STATES.indexOf(envelope.state) + 1;
  head.writeUInt16BE(flags, 2);
  head.writeUInt32BE(envelope.gen, 4);
  time(envelope.dueMs).copy(head, 8);
  time(envelope.atMs).copy(head, 16);
  head.writeUInt32BE(envelope.delivery, 24);
  head.writeUInt16BE(envelope.attempt, 28);
  head.writeUInt16BE(envelope.maxAttempts, 30);
  const parts = [head, ...fields.flatMap(([, field]) => field ?? []), envelope.payload];
  if (reason !== undefined) {
    const bytes = Buffer.from(reason);
    parts.push(bytes, Buffer.of(bytes.length >> 8, bytes.length & 255));
  }
  return Buffer.concat(parts);
}

class Reader {
  constructor(public rest: Buffer) {}

  take(n: number): Buffer {
    if (this.rest.length < n) throw new EnvelopeError("malformed envelope: cut short");
    const head = this.rest.subarray(0, n);
    this.rest = this.rest.subarray(n);
    return head;
  }

  short = (): Buffer => this.take(this.take(1)[0]!);
  long = (): Buffer => this.take(this.take(2).readUInt16BE());
  time = (): number => Number(this.take(8).readBigUInt64BE());

  backoff(): Backoff {
    const spec = this.short();
    const [kind, count] = [spec[0] ?? 0, (spec.length - 1) / 4];
    if (!Number.isInteger(count) || kind < 1 || kind > 3 || count < 1 || (kind < 3 && count !== kind)) {
      throw new EnvelopeError("malformed envelope: back-off");
    }
    return { kind: KINDS[kind - 1]!, delaysMs: Array.from({ length: count }, (_, i) => spec.readUInt32BE(1 + 4 * i)) };
  }

  group(): string {
    try {
      return printable("group", text(this.short()));
    } catch (fault) {
      throw fault instanceof InvalidMessage ? new EnvelopeError("malformed envelope: group") : fault;
    }
  }

  headers(): [string, string][] {
    const block = new Reader(this.long());
    const pairs: [string, string][] = [];
    while (block.rest.length > 0) pairs.push([text(block.short()), text(block.long())]);
    return pairs;
  }

  /** It stands at the very end, its length behind it. */
  reason(): string {
    const end = this.rest.length - 2;
    const at = end < 0 ? -1 : end - this.rest.readUInt16BE(end);
    if (at < 0) throw new EnvelopeError("malformed envelope: cut short");
    const reason = this.rest.toString("utf8", at, end);
    this.rest = this.rest.subarray(0, at);
    return reason;
  }
}

function text(raw: Buffer): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(raw);
  } catch {
    throw new EnvelopeError("malformed envelope: text that is not UTF-8");
  }
}

/** Reads the stored form. */
export function decode(stored: Buffer): Envelope {
  if ((stored[0] ?? 0) > FORMAT) throw new EnvelopeError(`format ${stored[0]} is newer than this client knows`, true);
  const read = new Reader(stored);
  const head = read.take(32);
  const state = STATES[head[1]! - 1];
  if (!state) throw new EnvelopeError("malformed envelope: no such state");
  const flags = head.readUInt16BE(2);
  const hash = flags & HASH ? read.take(8) : undefined;
  // Of what is over, only the hash is left.
  const live = head[1]! <= 4 ? flags : 0;
  return {
    state,
    gen: head.readUInt32BE(4),
    dueMs: Number(head.readBigUInt64BE(8)),
    atMs: Number(head.readBigUInt64BE(16)),
    delivery: head.readUInt32BE(24),
    attempt: head.readUInt16BE(28),
    maxAttempts: head.readUInt16BE(30),
    doomed: (flags & DOOMED) > 0,
    zstd: (flags & ZSTD) > 0,
    hash,
    expiresMs: live & EXPIRES ? read.time() : undefined,
    backoff: live & BACKOFF ? read.backoff() : undefined,
    group: live & GROUP ? read.group() : undefined,
    headers: live & HEADERS ? read.headers() : [],
    reason: live & REASON ? read.reason() : undefined,
    payload: head[1]! <= 4 ? read.rest : Buffer.alloc(0),
  };
}
