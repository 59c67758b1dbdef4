/** Promotes the messages that are due first over all shards, and no more than the caller has room for. */

import type { Calls } from "./calls.js";
import { topicArg } from "./names.js";
import { inSteps, PROMOTED } from "./steps.js";
import { storedOf, type Stored } from "./stored.js";

/** Messages of a shard that are read at a time, to find which are due first. */
const PAGE = 32;

/**
 * Promotes delayed messages of a topic due until a time, until `room` messages are ready: ready messages that are not handed
 * out, as of a paused topic, leave no room for others. Returns the promoted in the order of due times; a concurrent change may
 * promote others in the same shards instead, and never more.
 */
export async function promoteEarliest(calls: Calls, topic: string, untilMs: number, room: number): Promise<Stored[]> {
  const [nowUs] = await calls.call("overview", 0, [0]);
  const fromMs = Math.floor(nowUs / 1000) + 1; // what is due now belongs to the timer
  if (fromMs > untilMs) return [];
  const ready = await calls.everywhere(async (shard) => Number((await calls.call("count", shard, [topicArg(topic), 0]))[3] ?? 0));
  const left = room - ready.reduce((sum, count) => sum + count, 0);
  if (left <= 0) return [];
  const order = await earliest(calls, topic, [fromMs, untilMs], left);
  for (const shard of new Set(order.map((one) => one.shard))) {
    const share = order.filter((one) => one.shard === shard).length;
    await inSteps(calls, "promote", shard, [topicArg(topic), ""], [fromMs, untilMs], PROMOTED, share);
  }
  return order;
}

/** Returns the messages that are due first, up to `room`. */
export async function earliest(calls: Calls, topic: string, range: [number, number], room: number): Promise<Stored[]> {
  const shards = await calls.everywhere(async (shard) => {
    const listed = delayed(calls, topic, shard, range, Math.min(room, PAGE));
    return { listed, head: await listed.next() };
  });
  const order: Stored[] = [];
  while (order.length < room) {
    const left = shards.filter(({ head }) => !head.done);
    if (left.length === 0) break;
    const first = left.reduce((one, other) => (other.head.value!.dueMs < one.head.value!.dueMs ? other : one));
    order.push(first.head.value!);
    first.head = await first.listed.next();
  }
  return order;
}

/** Iterates over the readable delayed messages of one shard by due time. */
async function* delayed(calls: Calls, topic: string, shard: number, [from, to]: [number, number], page: number): AsyncGenerator<Stored, undefined> {
  let [at, mark]: [any, any] = [from, ""];
  do {
    const reply = await calls.call("list", shard, [topicArg(topic), "delayed", at, to, "asc", mark, page]);
    const [, next, after, ...items] = reply;
    [at, mark] = [next, after];
    for (let n = 0; n < items.length; n += 2) {
      const one = storedOf(shard, topic, items[n], items[n + 1]);
      if (one.unreadable === undefined) yield one;
    }
  } while (String(at) !== "");
  return undefined;
}
