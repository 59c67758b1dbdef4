/** Drains topics in a test: delivers message after message, and moves the deployment to the next due time in between. */

import { inspect } from "node:util";
import { functionOf, optionsOf, topicsOf, wholeOf } from "./arguments.js";
import type { Client } from "./client.js";
import type { Delivery, SettleOne } from "./delivery.js";
import type { Outcome } from "./outcome.js";
import { earliest, promoteEarliest } from "./promoting.js";
import { MAX_IDS_A_CALL, MAX_TIME_MS } from "./protocol.js";
import { settledBy, type Failure, type Handler } from "./worker.js";

/** Default maximum of deliveries, beyond which a handler is taken to put messages for ever. */
const MAX_DELIVERIES = 1000;

export type DrainOptions = { maxDeliveries?: number };

/** One delivery: the message, how it was settled, and what the handler threw. */
export type Drained = {
  topic: string;
  id: string;
  group: string | undefined;
  payload: Buffer;
  attempt: number;
  /** `delivered`; after a failure, `delayed` or `ready` for another attempt, or `buried`; or as the handler settled it. */
  word: string;
  error: unknown;
};

/** Messages are left that no further delivery would finish. `drained` has the deliveries up to then. */
export class NotDrained extends Error {
  override name = "NotDrained";

  constructor(why: string, readonly drained: readonly Drained[]) {
    super(why);
  }
}

/** Delivers the messages of some topics until none is left. */
export async function drain(client: Client, topics: string | readonly string[], handler: Handler, options: DrainOptions): Promise<Drained[]> {
  const names = topicsOf(typeof topics === "string" ? [topics] : topics);
  functionOf("the handler", handler);
  const { maxDeliveries = MAX_DELIVERIES } = optionsOf("drain's options", options, "maxDeliveries");
  wholeOf("maxDeliveries", maxDeliveries, 1, MAX_TIME_MS);
  const drained: Drained[] = [];
  for (let next; (next = await nextOf(client, names)); ) {
    if (drained.length === maxDeliveries) {
      await next.release({ delayMs: 0, keepAttempt: true });
      throw new NotDrained(endless(next, drained), drained);
    }
    drained.push(await handled(next, handler));
  }
  const left = (await Promise.all(names.map((topic) => leftOf(client, topic)))).filter((why) => why !== "");
  if (left.length > 0) throw new NotDrained(left.join("; "), drained);
  return drained;
}

/** Reserves a message that is ready, or else the one that is due first. */
async function nextOf(client: Client, topics: readonly string[]): Promise<Delivery | undefined> {
  for (const advance of [async () => undefined, () => promoteFirst(client, topics), () => pump(client)]) {
    await advance();
    const [found] = await client.reserve(topics);
    if (found) return found;
  }
  return undefined;
}

/** Promotes the message that is due first, unless it is due already. */
async function promoteFirst(client: Client, topics: readonly string[]): Promise<void> {
  const firsts = await Promise.all(topics.map((topic) => earliest(client["calls"], topic, [0, MAX_TIME_MS], 1)));
  const [first] = firsts.flat().sort((one, other) => one.dueMs - other.dueMs);
  if (first) await promoteEarliest(client["calls"], first.topic, MAX_TIME_MS, 1);
}

/** Handles and settles one message. */
async function handled(delivery: Delivery, handler: Handler): Promise<Drained> {
  const { topic, id, group, payload, attempt } = delivery;
  let outcome: Outcome | undefined;
  const settleOne = delivery["settleOne"];
  const noted: SettleOne = async (verb, item) => {
    const answer = await settleOne(verb, item);
    if (verb !== "extend") outcome = answer;
    return answer;
  };
  Object.assign(delivery, { settleOne: noted });
  let failure: Failure | undefined;
  try {
    await handler(delivery);
  } catch (thrown) {
    failure = { thrown: thrown ?? new Error(`the handler threw ${thrown}, without a reason`) };
  }
  if (delivery.isSettled) await delivery.done;
  else await settledBy(delivery, failure);
  return { topic, id, group, payload, attempt, word: outcome?.word ?? "unanswered", error: failure?.thrown };
}

/** Makes everything ready that is due by now, as a timer does. */
export async function pump(client: Client): Promise<void> {
  const calls = client["calls"];
  await calls.everywhere(async (shard) => {
    const [, epoch] = await calls.call("claim", shard, ["worker/testing", 1, ""]);
    let word = "more";
    while (word.startsWith("more")) word = String((await calls.call("pump", shard, [epoch, MAX_IDS_A_CALL]))[0]);
  });
}

/** Says what cannot be delivered; "" if nothing is left. */
async function leftOf(client: Client, topic: string): Promise<string> {
  const { delayed, ready, leased } = await client.topic(topic).count();
  if (leased > 0) return `${topic} has leased messages (${leased}): before a drain, settle what the test itself has reserved`;
  return delayed + ready > 0 ? `${topic} has messages (${delayed + ready}) that cannot be reserved: is it paused, or limited by a rate?` : "";
}

function endless(next: Delivery, drained: readonly Drained[]): string {
  const { error } = drained.at(-1)!;
  const thrown = error === undefined ? "" : `; the handler threw ${inspect(error, { depth: 0 }).split("\n")[0]} at last`;
  const why = "does the handler put messages for ever, or fail for ever? Else give maxDeliveries";
  return `${next.topic} is not drained after ${drained.length} deliveries, ${next.id} is next: ${why}${thrown}`;
}
