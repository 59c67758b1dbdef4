/** Answers of scripts. */

import { ACCEPTED, LOST, type State, type Words } from "./protocol.js";

export type { State, Words };

/**
 * A script failed as a whole. It changed nothing if the code is DQUNINITIALISED, DQLAYOUT, DQDURABILITY or DQARG. WRONGTYPE: a
 * key has another type, and the call may be carried out in part; a repeat is safe.
 */
export class ScriptError extends Error {
  override name = "ScriptError";
  readonly code = this.message.split(" ", 1)[0]!;
}

/** The client was closed before the call was answered. */
export class ClosedError extends Error {
  override name = "ClosedError";

  constructor() {
    super("the client is closed: make another one");
  }
}

/**
 * Too few replicas, or no disk, confirmed a write in time: the fate of the write is unknown. Repeat the call unchanged; a
 * repeat of a finished write is confirmed, too.
 */
export class Unconfirmed extends Error {
  override name = "Unconfirmed";

  /** `durability` is the missing confirmation, such as `replica:1`. */
  constructor(readonly durability: string, why: string) {
    super(`not confirmed with the topic's durability ${durability}: ${why}`);
  }
}

/** Redis did not answer in time. A call that was sent may have been carried out, and may be repeated. */
export class TimeoutError extends Error {
  override name = "TimeoutError";

  /** `isSent` tells whether the call was sent; `late` resolves with an answer after the deadline. */
  constructor(timeoutMs: number, readonly isSent: boolean, readonly late: Promise<unknown>) {
    super(isSent ? `Redis did not answer within ${timeoutMs} ms` : `no connection within ${timeoutMs} ms: the call was not sent`);
  }
}

/**
 * Only some of the messages have an answer, because of `cause`. `outcomes` has one outcome per message, in order. Unless the
 * cause is a ScriptError, messages with the word `unanswered` may have been processed: repeat only unanswered messages, with
 * the same ids.
 */
export class Incomplete<Word extends string = string> extends Error {
  override name = "Incomplete";

  constructor(readonly outcomes: readonly Outcome<Word | "unanswered">[], cause: unknown) {
    const unanswered = outcomes.filter(({ word }) => word === "unanswered").length;
    super(`${unanswered} of ${outcomes.length}: ${cause}`, { cause });
  }
}

export type Verb = keyof Words;

/** The result of a call for one message: a word with details. */
export interface Outcome<Word extends string = string> {
  word: Word;
  id: string;
  shard: number;
  /**
   * The call succeeded: a put is stored, by this call or an earlier one; a message is cancelled; a message has the new due
   * time; a delivery is settled or extended; a dead letter is revived.
   */
  accepted: boolean;
  /** The due time, the end of a finished message, or the end of a lease, in ms on the Redis clock. */
  timeMs?: number;
  /** The previous due time. */
  oldMs?: number;
  /** The state in the answer; `malformed` or `newer` if unreadable bytes occupy the id. */
  state?: State | "malformed" | "newer";
  /** The reason of `refused` or `failed`. */
  why?: string;
  /** Cancelled while leased: the message will not be retried. */
  doomed?: boolean;
}

/** Outcomes and faults by the index of the item. */
export type Results = { outcomes: Outcome[]; faults: unknown[] };

export function unanswered(id: string): Outcome<"unanswered"> {
  return { word: "unanswered", id, shard: 0, accepted: false };
}

function isAccepted(word: string, state?: string): boolean {
  return ACCEPTED.includes(word) && !(word === "exists" && LOST.includes(state!));
}

/** An answer without details, as most are. */
const WORD = /^(?!refused|failed)[a-z-]+$/;

/** Parses the answer of a script for one message. */
export function outcomeOf(text: string, shard: number, id: string): Outcome {
  if (WORD.test(text)) return { word: text, id, shard, accepted: isAccepted(text), timeMs: undefined, oldMs: undefined, state: undefined };
  const words = text.replace(/^not dead/, "not-dead").split(" ");
  const word = words[0]!;
  const all = { word, id, shard, accepted: isAccepted(word) };
  if (word === "refused" || word === "failed") return { ...all, why: words.slice(1).join(" ") };
  const numbers = words.filter((one) => /^\d+$/.test(one)).map(Number);
  const doomed = word === "cancelled" && numbers.length > 0;
  const extended = doomed || words.length === numbers.length;
  if (extended) return { ...all, word: "extended", accepted: true, timeMs: numbers[0], doomed };
  const state = words.slice(1).find((one) => !/^\d+$/.test(one)) as Outcome["state"];
  return { ...all, accepted: isAccepted(word, state), timeMs: numbers.at(-1), oldMs: numbers.at(-2), state };
}

/** Turns the outcome of a put of a next message into that of the ack. */
export function asAck(put: Outcome): Outcome<Words["ack"]> {
  const { id, shard, word } = put;
  if (word === "stored" || word === "ready" || word === "exists") return { word: "delivered", id, shard, accepted: true };
  if (word === "cancelled") return { word, id, shard, accepted: true };
  if (word === "expired") return { word, id, shard, accepted: false };
  return { word: "failed", id, shard, accepted: false, why: `the next message was not put: ${put.why ?? `${word} ${put.state}`}` };
}
