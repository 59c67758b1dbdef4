/** Calls of scripts: many messages at a time, in as few calls as the limits allow, wherever their shards are. */

import type { Redis } from "ioredis";
import { name, placesOf } from "./names.js";
import { ScriptError } from "./outcome.js";
import { script } from "./scripts.js";

const MOST_IDS = 500;
const MOST_BYTES = 4 * 1024 * 1024;

export type Arg = Buffer | string | number;
export type Reply = any[];

/** One message in a call: what says its place (a name, or a shard's number), its topic, its id or receipt, the rest. */
export interface Item {
  place: Buffer | number;
  topic: string[];
  args: Arg[];
}

/** What a script answered for one message, in which shard, and with what before it: of a put, the time in µs. */
export type Answer = [text: string, shard: number, head: unknown];

/** A deployment, and the calls of its scripts. */
export class Calls {
  readonly namespace: string;
  /** How many shards there were in each layout of the deployment, the newest last. Replaced, never changed. */
  protected counts: readonly number[] = [];

  constructor(
    readonly redis: Redis,
    namespace: string,
  ) {
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
    const asked = new Map(items.map((_, i) => [i, 0])); // without an answer yet, and in how many places they were sought
    while (asked.size > 0) {
      const counts = this.counts;
      for (const { shard, topic, some } of batches(verb, items, asked, counts)) {
        const reply = await this.call(verb, counts, shard, [...topic, ...some.flatMap(({ args }) => args)]);
        for (const [n, { i, last }] of some.entries()) {
          const text = reply && String(reply.at(n - some.length));
          if (text && (last || !["unknown", "moved"].includes(text))) {
            answers[i] = [text, shard, reply[0]];
            asked.delete(i);
          } else asked.set(i, text ? asked.get(i)! + 1 : 0);
        }
      }
    }
    return answers;
  }

  /** The reply of one call, whatever the layout. */
  protected async one(verb: string, shard: number, args: Arg[]): Promise<Reply> {
    for (;;) {
      const reply = await this.call(verb, this.counts, shard, args);
      if (reply) return reply;
    }
  }

  /**
   * The reply of one call; undefined where the shard had another layout, which is followed then. A Redis that has not got the
   * script is given it.
   */
  private async call(verb: string, counts: readonly number[], shard: number, args: Arg[]): Promise<Reply | undefined> {
    const [source, sha] = script(verb);
    const base = `{${this.namespace}:${shard}}:`;
    const rest = [2, `${base}meta`, `${base}never`, counts.length, ...args];
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

interface Batch {
  shard: number;
  topic: string[];
  bytes: number;
  some: { i: number; last: boolean; args: Arg[] }[];
}

/** Parts items into calls of one shard and topic each, with at most 500 messages and 4 MiB. */
function batches(verb: string, items: readonly Item[], asked: Map<number, number>, counts: readonly number[]): Batch[] {
  const [all, open] = [[] as Batch[], new Map<string, Batch>()];
  for (const [i, before] of asked) {
    const [{ topic, place }, args] = [items[i]!, [...items[i]!.args]];
    const places = placesOf(place, counts);
    const last = before + 1 === places.length;
    if (verb === "put") {
      places.reverse(); // first to where it may be since before a growth, in the end where it belongs
      if (!last) args[2] = `${args[2]} earlier`;
    }
    const [shard, bytes] = [places[before]!, args.reduce<number>((sum, arg) => sum + Buffer.byteLength(Buffer.isBuffer(arg) ? arg : `${arg}`), 0)];
    let batch = open.get(`${shard} ${topic}`);
    if (!batch || batch.some.length === MOST_IDS || batch.bytes + bytes > MOST_BYTES) {
      batch = { shard, topic, bytes: 0, some: [] };
      open.set(`${shard} ${topic}`, batch);
      all.push(batch);
    }
    batch.some.push({ i, last, args });
    batch.bytes += bytes;
  }
  return all;
}
