/** Operations in bounded steps: each reply says where the next step begins. */

import type { Calls } from "./calls.js";

/** Maximum messages promoted per call: a call delays other callers by a few milliseconds at most. */
export const PROMOTED = 100;

/**
 * Calls a script of one shard, each time for at most `most` messages, until it is done or has changed `total`. Returns the numbers
 * of messages changed and kept.
 */
export async function inSteps(
  calls: Calls,
  verb: "promote" | "purge",
  shard: number,
  head: (Buffer | string)[],
  [from, to]: readonly [unknown, unknown],
  most: number,
  total = Infinity,
): Promise<[changed: number, kept: number]> {
  let [word, at, entry]: [string, any, any] = ["more", from, ""];
  let [changed, kept] = [0, 0];
  while (word === "more" && changed < total) {
    const reply = await calls.call(verb, shard, [...head, at, to, entry, Math.min(most, total - changed)] as any[]);
    [word, at, entry] = [String(reply[0]), reply[3], reply[4]];
    changed += reply[1];
    kept += reply[2];
  }
  return [changed, kept];
}
