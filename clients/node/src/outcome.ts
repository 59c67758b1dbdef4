/** What scripts answer. */

/** A script refused the whole call, and did nothing. Its code says why: DQUNINITIALISED, DQLAYOUT, DQTYPE, DQARG. */
export class ScriptError extends Error {
  override name = "ScriptError";
  readonly code = this.message.split(" ", 1)[0]!;
}

/** What became of one message: a word, and what belongs to it. The README lists the words. */
export interface Outcome {
  word: string;
  /** When it is due; of what is over, when it ended; of a lease, its end. Ms since the epoch, on Redis's clock. */
  timeMs?: number | undefined;
  /** When it was due before. */
  oldMs?: number | undefined;
  /** The state that the answer names. */
  state?: string | undefined;
  /** Why it was refused or failed. */
  why?: string | undefined;
  /** Of a lease that was extended: a cancel came meanwhile, it will not be tried again. */
  doomed?: boolean;
}

/** What became of a put: also what finds the message again, where it is, and whether it is kept, by this put or an earlier one. */
export type Put = Outcome & { id: string; shard: number; accepted: boolean };

export function parseOutcome(text: string): Outcome {
  const words = text.split(" ");
  const word = words[0]!;
  if (word === "refused" || word === "failed") return { word, why: words.slice(1).join(" ") };
  const numbers = words.filter((one) => /^\d+$/.test(one)).map(Number);
  const doomed = word === "cancelled" && numbers.length > 0;
  if (doomed || words.length === numbers.length) return { word: "extended", timeMs: numbers[0], doomed };
  return { word, timeMs: numbers.at(-1), oldMs: numbers.at(-2), state: words.slice(1).find((one) => !/^\d+$/.test(one)) };
}
