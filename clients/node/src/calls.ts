/** Calls of scripts: many messages at a time, in as few calls as the limits allow, wherever their shards are. */

import type { Redis } from "ioredis";
import { name, placesOf } from "./names.js";
import { ScriptError } from "./outcome.js";
import { script } from "./scripts.js";

const MOST_IDS = 500;
/** Half of the 4 MiB that a call may have: one more message always fits. */
const FULL_BYTES = 2 * 1024 * 1024;

/** undefined for what the script does where nothing is said. */
export type Arg = Buffer | string | number | undefined;
export type Reply = any[];

/** One message in a call: what says its place (a name, or a shard's number), its topic, its id or receipt and the rest. */
export type Item = { place: Buffer | number; topic: string[]; args: Arg[] };

/** What a script answered for one message, in which shard, and with what before it: of a put, the time in µs. */
export type Answer = [text: string, shard: number, head: unknown];

/** A deployment, and the calls of its scripts. */
export class Calls {
  readonly namespace: string;
  /** How many shards there were in each layout of the deployment, the newest last. Replaced, never changed. */
  protected counts: readonly number[] = [];

  constructor(readonly redis: Redis, namespace: string) {
    if (redis.options.keyPrefix) throw new Error("the connection's keyPrefix would hide the deployment's keys");
    this.namespace = name("namespace", namespace);
  }

  /** How many shards there are. The first time, Redis is asked: whoever knows none is refused, and told. */
  protected async learn(): Promise<number> {
    if (this.counts.length === 0) await this.call("describe", [], 0, [""]);
    return this.counts.at(-1)!;
  }

  /** One answer for each item. */
  protected async each(verb: string, items: readonly Item[]): Promise<Answer[]> {
    await this.learn();
    const answers: Answer[] = [];
    const sought = new Map(items.map((_, i) => [i, 0])); // without an answer yet, and in how many places they were sought
    while (sought.size > 0) {
      const counts = this.counts;
      for (const { shard, topic, last, some } of batches(verb, items, sought, counts)) {
        const args = some.flatMap((i) => items[i]!.args);
        if (verb === "put" && !last) for (let at = 2; at < args.length; at += 4) args[at] = `${args[at]} earlier`;
        const reply = await this.call(verb, counts, shard, [...topic, ...args]);
        for (const [n, i] of some.entries()) {
          const text = reply && String(reply.at(n - some.length));
          if (text && (last || !["unknown", "moved"].includes(text))) {
            answers[i] = [text, shard, reply[0]];
            sought.delete(i);
          } else sought.set(i, text ? sought.get(i)! + 1 : 0); // elsewhere, or anew where the layout is another now
        }
      }
    }
    return answers;
  }

  /** The reply of one call, whatever the layout. */
  protected async one(verb: string, shard: number, args: Arg[]): Promise<Reply> {
    let reply: Reply | undefined;
    while (!reply) reply = await this.call(verb, this.counts, shard, args);
    return reply;
  }

  /**
   * The reply of one call; undefined where the shard had another layout, which is followed then. A Redis that has not got the
   * script is given it.
   */
  private async call(verb: string, counts: readonly number[], shard: number, args: Arg[]): Promise<Reply | undefined> {
    const [source, sha] = script(verb);
    const base = `{${this.namespace}:${shard}}:`;
    const rest = [2, `${base}meta`, `${base}never`, counts.length, ...args.map((arg) => arg ?? "")];
    try {
      const reply = await this.redis.callBuffer("EVALSHA", [sha, ...rest]).catch((fault: Error) => {
        if (fault.message.startsWith("NOSCRIPT")) return this.redis.callBuffer("EVAL", [source, ...rest]);
        throw fault;
      });
      return Array.isArray(reply) ? reply : [reply];
    } catch (fault) {
      if (!(fault instanceof Error && fault.message.startsWith("DQ"))) throw fault;
      await this.follow(shard, new ScriptError(fault.message));
      return undefined;
    }
  }

  /** Takes over the layout of a shard that knows more, and tells one that knows less. */
  private async follow(shard: number, refusal: ScriptError): Promise<void> {
    const [, layout, text = ""] = refusal.message.split(" ");
    const [told, known] = [text.split(",").map(Number), this.counts];
    const same = told.every((count, i) => i >= known.length || count === known[i]);
    if (refusal.code !== "DQLAYOUT" || layout !== String(told.length) || !same) throw refusal;
    if (told.length >= known.length) this.counts = told;
    else await this.one("grow", shard, [shard, known.join(",")]);
  }
}

/** What goes in one call each: items of one shard and topic, sought for the last time or not; as many as a call may have. */
function* batches(verb: string, items: readonly Item[], sought: Map<number, number>, counts: readonly number[]) {
  const begun = new Map<string, { shard: number; topic: string[]; last: boolean; some: number[]; bytes: number }>();
  for (const [i, before] of [...sought]) {
    const { place, topic, args } = items[i]!;
    const places = placesOf(place, counts);
    if (verb === "put") places.reverse(); // first to where it may be since before a growth, in the end where it belongs
    const [shard, last] = [places[before]!, before + 1 === places.length];
    const key = `${shard} ${last} ${topic}`;
    const batch = begun.get(key) ?? { shard, topic, last, some: [], bytes: 0 };
    batch.bytes += args.reduce<number>((sum, arg) => sum + (Buffer.isBuffer(arg) ? arg.length : 0), 0);
    batch.some.push(i);
    const full = batch.some.length === MOST_IDS || batch.bytes > FULL_BYTES;
    if (full) yield batch;
    if (full) begun.delete(key);
    else begun.set(key, batch);
  }
  yield* begun.values();
}
