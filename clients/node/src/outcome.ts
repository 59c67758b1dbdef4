/** What scripts answer. */

/** A script refused the whole call, and did nothing. Why: DQUNINITIALISED, DQLAYOUT, DQDURABILITY, DQTYPE or DQARG. */
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
 * Fewer replicas than the topic asks for, or not the disk, confirmed a write in time: its fate is unknown. Repeat it in the
 * same way; a repeat that finds everything done is confirmed, too.
 */
export class Unconfirmed extends Error {
  override name = "Unconfirmed";

  /** `durability` is what was waited for, such as `replica:1`. */
  constructor(readonly durability: string, why: string) {
    super(`${durability} is asked for, and not confirmed: ${why}`);
  }
}

/** Redis did not answer in time. If the call was sent, it may have been carried out. It may be repeated. */
export class TimeoutError extends Error {
  override name = "TimeoutError";

  /** `isSent` is whether the call was sent; `late` is the answer, should it still come. */
  constructor(timeoutMs: number, readonly isSent: boolean, readonly late: Promise<unknown>) {
    super(isSent ? `Redis did not answer within ${timeoutMs} ms` : `no connection within ${timeoutMs} ms: the call was not sent`);
  }
}

/**
 * Some of many messages have an answer, and others none: `cause` says why. `outcomes` has one for each, in order; the
 * word `unanswered` stands for none, and then the call may have been carried out unless the cause is a ScriptError.
 * Repeat those alone, under the same ids.
 */
export class Incomplete<Word extends string = string> extends Error {
  override name = "Incomplete";

  constructor(readonly outcomes: readonly Outcome<Word | "unanswered">[], cause: unknown) {
    const unanswered = outcomes.filter(({ word }) => word === "unanswered").length;
    super(`${unanswered} of ${outcomes.length}: ${cause}`, { cause });
  }
}

/** The words of each verb's outcomes; the README says what they mean. */
export interface Words {
  put: "stored" | "ready" | "exists" | "conflict" | "leased" | "stale" | "refused";
  cancel: "cancelled" | "leased" | "dead" | "finished" | "unknown" | "failed";
  reschedule: "delayed" | "ready" | "changed" | "leased" | "dead" | "finished" | "unknown" | "refused" | "failed";
  extend: "extended" | "expired" | "failed";
  ack: "delivered" | "expired" | "failed";
  release: "delayed" | "ready" | "buried" | "cancelled" | "expired-message" | "expired" | "failed";
  bury: "buried" | "expired" | "failed";
  replay: "ready" | "delayed" | "not-dead" | "unknown" | "refused" | "failed";
}
export type Verb = keyof Words;

/** The state of a message. The last four are over; they are remembered for a while. */
export const STATES = ["delayed", "ready", "leased", "dead", "delivered", "cancelled", "expired", "purged"] as const;
export type State = (typeof STATES)[number];

/** What became of one message: a word, and what belongs to it. */
export interface Outcome<Word extends string = string> {
  word: Word;
  /** The message's id, as text. */
  id: string;
  /** Where it is. */
  shard: number;
  /**
   * Whether what was asked for holds: a put is kept, by this call or an earlier one; a cancel is done, now or before; a message
   * has its new due time; a delivery is settled, or its lease extended; a dead letter lives again.
   */
  accepted: boolean;
  /** When it is due; of what is over, when it ended; of a lease, its end. In ms, on Redis's clock. */
  timeMs?: number;
  /** When it was due before. */
  oldMs?: number;
  /** The state that the answer names; `malformed` or `newer` where the id is taken by bytes that cannot be read. */
  state?: State | "malformed" | "newer";
  /** Why it was refused or failed. */
  why?: string;
  /** Of a lease that was extended: a cancel came meanwhile, it will not be tried again. */
  doomed?: boolean;
}

/** The outcome of a message whose call was not answered. */
export function unanswered(id: string): Outcome<"unanswered"> {
  return { word: "unanswered", id, shard: 0, accepted: false };
}

const ACCEPTED = ["stored", "ready", "delayed", "cancelled", "extended", "delivered", "buried", "expired-message"];
/** States of what an earlier put stored, and nobody gets any more. */
const LOST = ["cancelled", "expired", "purged"];

function isAccepted(word: string, state?: string): boolean {
  return word === "exists" ? !LOST.includes(state!) : ACCEPTED.includes(word);
}

/** Reads what a script answered for one message. */
export function outcomeOf(text: string, shard: number, id: string): Outcome {
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
