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

/** What became of a put, and what finds the message again. */
export interface Put {
  id: string;
  shard: number;
  outcome: Outcome;
  /** Whether the message is kept, by this put or an earlier one. */
  accepted: boolean;
}

export function parseOutcome(text: string): Outcome {
  const [word, ...words] = text.split(" ") as [string, ...string[]];
  const numbers = words.filter((one) => /^\d+$/.test(one)).map(Number);
  if (word === "refused" || word === "failed") return { word, why: words.join(" ") };
  if (/^\d+$/.test(word)) return { word: "extended", timeMs: Number(word), doomed: false };
  if (word === "cancelled" && numbers.length > 0) return { word: "extended", timeMs: numbers[0], doomed: true };
  if (numbers.length === 2) return { word, oldMs: numbers[0], timeMs: numbers[1] };
  if (words.length === 2) return { word, state: words[0], timeMs: numbers[0] };
  return numbers.length > 0 ? { word, timeMs: numbers[0] } : { word };
}
