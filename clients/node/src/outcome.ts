/** What scripts answer. */

/** A script refused the whole call, and did nothing. Why: DQUNINITIALISED, DQLAYOUT, DQTYPE or DQARG. */
export class ScriptError extends Error {
  override name = "ScriptError";
  readonly code = this.message.split(" ", 1)[0]!;
}

/**
 * Some of many messages have an answer, and others none: `cause` says why. `outcomes` has one for each, in order; the
 * word `unanswered` stands for none, and then the call may have been carried out unless the cause is a ScriptError.
 * Repeat those alone, under the same ids.
 */
export class Incomplete extends Error {
  override name = "Incomplete";

  constructor(readonly outcomes: readonly Outcome[], cause: unknown) {
    const unanswered = outcomes.filter(({ word }) => word === "unanswered").length;
    super(`${unanswered} of ${outcomes.length}: ${cause}`, { cause });
  }
}

/** What became of one message: a word, and what belongs to it. The README lists the words. */
export interface Outcome {
  word: string;
  /** Of a put, a cancel or a reschedule: what finds the message again, and where it is. */
  id?: string;
  shard: number;
  /** Of a put: whether the message is kept, by this one or an earlier one. */
  accepted: boolean;
  /** When it is due; of what is over, when it ended; of a lease, its end. In ms, on Redis's clock. */
  timeMs?: number;
  /** When it was due before. */
  oldMs?: number;
  /** The state that the answer names. */
  state?: string;
  /** Why it was refused or failed. */
  why?: string;
  /** Of a lease that was extended: a cancel came meanwhile, it will not be tried again. */
  doomed?: boolean;
}

/** The outcome of a message whose call was not answered. */
export function unanswered(id: string | undefined): Outcome {
  return { word: "unanswered", id, shard: 0, accepted: false };
}

/** Reads what a script answered for one message. */
export function outcomeOf(text: string, shard: number, id: string | undefined): Outcome {
  const words = text.split(" ");
  const word = words[0]!;
  const all = { word, shard, id, accepted: ["stored", "ready", "exists"].includes(word) };
  if (word === "refused" || word === "failed") return { ...all, why: words.slice(1).join(" ") };
  const numbers = words.filter((one) => /^\d+$/.test(one)).map(Number);
  const doomed = word === "cancelled" && numbers.length > 0;
  const extended = doomed || words.length === numbers.length;
  if (extended) return { ...all, word: "extended", timeMs: numbers[0], doomed };
  const state = words.slice(1).find((one) => !/^\d+$/.test(one));
  return { ...all, timeMs: numbers.at(-1), oldMs: numbers.at(-2), state };
}
