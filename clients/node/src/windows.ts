/** Due times that are spread evenly by id, with the same result in every client. */

import { createHash } from "node:crypto";
import { dueMs, shown, spanMs, textOf, type Time } from "./arguments.js";
import { InvalidMessage } from "./names.js";

const WINDOW = /^([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d) (.*)$/s;
const ZONE = /^[A-Za-z][\w+-]*(\/[\w+-]+)*$/;
const DAY_S = 86_400;
/** A zone skips one day at most; a window occurs on the next. */
const DAYS_AHEAD = 4;

/** The offset of a zone from UTC at an instant, both in seconds. */
type Offset = (second: number) => number;

/** Returns a delay in ms from 0 up to `longestMs`, the same for each repeat with this id. */
export function jitterMs(id: string, longestMs: number): number {
  return offsetMs(id, spanMs("longestMs", longestMs));
}

/**
 * Returns the first time, from `earliest` (now) on, at which an id's turn comes in a daily window.
 *
 * A window is `09:00-10:00 Europe/Berlin`; one whose end is before its start crosses midnight. Each id has its own offset
 * in the window, so many ids are spread evenly, and a repeat before that time returns the same time. A window that lies
 * in the hour that the clocks skip does not occur that day.
 */
export function between(window: string, id: string, earliest: Time = Date.now()): Date {
  const { start, end, offset } = readWindow(textOf("window", window));
  const fromMs = dueMs("earliest", earliest, false);
  const second = Math.floor(fromMs / 1000);
  const today = Math.floor((second + offset(second)) / DAY_S);
  for (let day = today - 1; day <= today + DAYS_AHEAD; day++) {
    const [opens, closes] = windowOn(day, start, end, offset);
    const ms = opens * 1000 + offsetMs(id, Math.max(closes - opens, 0) * 1000);
    if (opens < closes && ms >= fromMs) return new Date(ms);
  }
  throw new InvalidMessage(`no window ${window} opens after ${shown(new Date(fromMs))}`);
}

function readWindow(window: string): { start: number; end: number; offset: Offset } {
  const parts = WINDOW.exec(window);
  if (parts === null) throw new InvalidMessage(`${shown(window)} is not a window: write HH:MM-HH:MM ZONE, as 09:00-10:00 Europe/Berlin`);
  const [start, end] = [1, 3].map((n) => 60 * (60 * Number(parts[n]) + Number(parts[n + 1]))) as [number, number];
  if (start === end) throw new InvalidMessage(`the window ${shown(window)} is empty: its end is its start`);
  return { start, end, offset: offsetOf(parts[5]!) };
}

function offsetOf(zone: string): Offset {
  const fields = formatOf(zone);
  // Other aliases keep their letters; a name in other letters is unknown to some of the clients.
  const resolved = fields?.resolvedOptions().timeZone;
  if (fields === undefined || (resolved !== zone && resolved?.toLowerCase() === zone.toLowerCase())) {
    throw new InvalidMessage(`unknown time zone ${shown(zone)} in a window; write one such as Europe/Berlin`);
  }
  return (second) => {
    const read = Object.fromEntries(fields.formatToParts(second * 1000).map(({ type, value }) => [type, Number(value)]));
    return Date.UTC(read["year"]!, read["month"]! - 1, read["day"], read["hour"], read["minute"], read["second"]) / 1000 - second;
  };
}

function formatOf(timeZone: string): Intl.DateTimeFormat | undefined {
  if (!ZONE.test(timeZone)) return undefined;
  const two = "2-digit";
  try {
    return new Intl.DateTimeFormat("en-US", {
      timeZone, calendar: "gregory", hourCycle: "h23", year: "numeric", month: two, day: two, hour: two, minute: two, second: two,
    });
  } catch {
    return undefined;
  }
}

/** Returns both ends of the window that begins on a day, in seconds since the epoch. */
function windowOn(day: number, start: number, end: number, offset: Offset): [number, number] {
  const [first, again] = instants(day * DAY_S + start, offset);
  const [closes] = instants((day + (end < start ? 1 : 0)) * DAY_S + end, offset);
  return [again < closes ? again : first, closes];
}

/** Returns the first and the last instant at which the zone's clock shows a time; the end of the gap for a skipped time. */
function instants(wall: number, offset: Offset): [number, number] {
  const offsets = [offset(wall - DAY_S), offset(wall + DAY_S)];
  const shownAt = offsets.filter((one) => offset(wall - one) === one).map((one) => wall - one);
  if (shownAt.length > 0) return [Math.min(...shownAt), Math.max(...shownAt)];
  let [before, after] = [wall - DAY_S, wall + DAY_S];
  while (after - before > 1) {
    const middle = Math.floor((before + after) / 2);
    if (offset(middle) === offset(before)) before = middle;
    else after = middle;
  }
  return [after, after];
}

function offsetMs(id: string, span: number): number {
  const first = createHash("sha256").update(textOf("id", id)).digest().readBigUInt64BE();
  return Number((BigInt(span) * first) >> 64n);
}
