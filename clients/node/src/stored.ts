/** Stored messages. */

import { isUtf8 } from "node:buffer";
import { decodeBackoff } from "./message.js";
import { idAndGroup, InvalidMessage, name } from "./names.js";
import { FLAGS, KNOWN_FLAGS, STATES, type Backoff, type State } from "./protocol.js";

/** The content of a stored message; times are on the Redis clock. */
export interface Envelope {
  /** A finished message has only the head and times. */
  state: State;
  dueMs: number;
  /** Time of the last change of state; for a leased message, the end of the lease. */
  atMs: number;
  /** Deliveries that `maxAttempts` limits. */
  attempt: number;
  /** All deliveries. */
  delivery: number;
  /** 0 means no limit. */
  maxAttempts: number;
  /** Cancelled while leased: the message will not be retried. */
  doomed: boolean;
  /** Failed, while its topic lets a failed message block its group: the others of its group wait for it. */
  blocks: boolean;
  /** Ready, but waiting for others of its group, or because its group is paused or blocked. */
  held: boolean;
  /** Leased, and a throttled put waits behind it, which takes its place when the lease ends. */
  hasSuccessor: boolean;
  /** Ready, and its group is paused. */
  paused: boolean;
  /** Ready, and a failed message blocks its group. */
  blocked: boolean;
  /** For `expectedContent`: 16 hex digits, of a message with an own id. */
  contentHash?: string;
  expiresMs?: number;
  backoff?: Backoff;
  group?: string;
  headers: [string, string][];
  payload: Buffer;
  /** The payload is a zstd frame that could not be decompressed. */
  compressed: boolean;
  /** Reason of a dead letter. */
  reason?: string;
}

/**
 * A stored message, or the record of a finished message. `unreadable` is the fault of an invalid envelope, of which only the
 * head is set.
 */
export type Stored = Envelope & { topic: string; id: string; shard: number; unreadable?: string };

/** Decodes an envelope, as specified in docs/protocol.md. */
export function readEnvelope(stored: Buffer): Envelope {
  if (stored[0]! > 1) throw new InvalidMessage(`an envelope of the newer format ${stored[0]}`);
  let at = 0;
  const take = (n: number): Buffer => {
    at += n;
    if (n < 0 || at > stored.length) throw new InvalidMessage("malformed envelope: cut short");
    return stored.subarray(at - n, at);
  };
  const legible = (field: Buffer): string => {
    if (!isUtf8(field)) throw new InvalidMessage("malformed envelope: text that is not UTF-8");
    return field.toString();
  };
  const text = (size: 1 | 2): string => legible(take(take(size).readUIntBE(0, size)));
  take(32);
  const read = readHead(stored);
  const flags = stored.readUInt16BE(2);
  const unknown = flags & ~KNOWN_FLAGS;
  if (unknown) throw new InvalidMessage(`an envelope with newer flags (0x${unknown.toString(16)}): upgrade delayq here first`);
  if (flags & FLAGS.HASH) read.contentHash = take(8).toString("hex");
  if (flags & FLAGS.EXPIRES) read.expiresMs = Number(take(8).readBigUInt64BE());
  if (flags & FLAGS.BACKOFF) read.backoff = decodeBackoff(take(take(1)[0]!));
  if (flags & FLAGS.GROUP) read.group = name("group", text(1));
  take(flags & FLAGS.LIFETIME ? 8 : 0);
  take(flags & FLAGS.FIRST ? 8 : 0);
  const end = flags & FLAGS.HEADERS ? take(2).readUInt16BE() + at : 0;
  while (at < end) read.headers.push([text(1), text(2)]);
  read.payload = stored.subarray(at);
  if (flags & FLAGS.REASON) {
    const { payload } = read;
    const end = payload.length - 2;
    const start = end < 0 ? end : end - payload.readUInt16BE(end);
    if (start < 0) throw new InvalidMessage("malformed envelope: a reason that is cut short");
    read.reason = legible(payload.subarray(start, end));
    read.payload = payload.subarray(0, start);
  }
  read.compressed = (flags & FLAGS.ZSTD) > 0;
  return read;
}

/** Decodes the bytes common to all formats. Every field is there from the start: a spread would cost microseconds. */
function readHead(head: Buffer): Envelope {
  const state = STATES[head[1]! - 1];
  if (state === undefined) throw new InvalidMessage(`malformed envelope: state ${head[1]}`);
  const flags = head.readUInt16BE(2);
  return {
    state,
    dueMs: Number(head.readBigUInt64BE(8)),
    atMs: Number(head.readBigUInt64BE(16)),
    attempt: head.readUInt16BE(28),
    delivery: head.readUInt32BE(24),
    maxAttempts: head.readUInt16BE(30),
    doomed: (flags & FLAGS.DOOMED) > 0,
    blocks: (flags & FLAGS.BLOCKS) > 0,
    held: (flags & FLAGS.HELD) > 0 && state !== "leased",
    hasSuccessor: (flags & FLAGS.HELD) > 0 && state === "leased",
    paused: (flags & FLAGS.PAUSED) > 0,
    blocked: (flags & FLAGS.BLOCKED) > 0,
    compressed: false,
    contentHash: undefined,
    expiresMs: undefined,
    backoff: undefined,
    group: undefined,
    headers: [],
    payload: NOTHING,
    reason: undefined,
  };
}

/** Decodes a message. An invalid envelope is reported, so that a listing continues. */
export function storedOf(shard: number, topic: string, stored: Buffer, envelope: Buffer): Stored {
  const named = { topic, ...idAndGroup(stored), shard };
  try {
    const read = readEnvelope(envelope);
    return { ...named, ...read, group: read.group ?? named.group };
  } catch (fault) {
    const head = envelope.length < 32 || STATES[envelope[1]! - 1] === undefined ? NO_HEAD : envelope;
    return { ...readHead(head), ...named, unreadable: (fault as Error).message };
  }
}

const NOTHING = Buffer.alloc(0);
/** Replaces a missing head: pending, and never due. */
const NO_HEAD = Buffer.concat([Buffer.of(1, 1), Buffer.alloc(30)]);
