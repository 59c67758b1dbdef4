/** The same message at several dates, under one handle. */

import { listOf, textOf, type Time } from "./arguments.js";
import type { Message } from "./message.js";
import { InvalidMessage } from "./names.js";

/** A put has as many messages at most. */
const MAX_DUES = 500;
/** The ids of the messages have a number behind it. */
const MAX_ID_BYTES = 124;

/**
 * Returns a message for each due time, a time or a delay: `ID/1`, `ID/2` and so on, in the group `ID`.
 *
 * The group is the handle: `client.group(ID)` lists, moves and cancels all that is pending of the series.
 */
export function series(message: Message, dues: readonly (Time | { afterMs: number })[]): Message[] {
  const { id, group } = message;
  const { length } = listOf("dues", dues);
  if (length < 1 || length > MAX_DUES) throw new InvalidMessage(`a series has 1 to ${MAX_DUES} due times, not ${length}`);
  if (group !== undefined) throw new InvalidMessage("a series is a group of its own: leave the group out");
  if (id === undefined || textOf("id", id).startsWith("~") || Buffer.byteLength(id) > MAX_ID_BYTES) {
    throw new InvalidMessage(`a series needs an id of your own, of 1 to ${MAX_ID_BYTES} bytes that do not begin with ~`);
  }
  const { at: _at, afterMs: _afterMs, ...rest } = message;
  return dues.map((due, n) => ({ ...rest, id: `${id}/${n + 1}`, group: id, ...(isDelay(due) ? { afterMs: due.afterMs } : { at: due }) }));
}

const isDelay = (due: Time | { afterMs: number }): due is { afterMs: number } => typeof due === "object" && !(due instanceof Date);
