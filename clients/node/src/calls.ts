/** Calls of scripts: many messages at a time, in as few calls as the limits allow, wherever their shards are. */

import type { Redis } from "ioredis";
import { name, placesOf } from "./names.js";
import { ScriptError } from "./outcome.js";
import { script } from "./scripts.js";

const MOST_IDS = 500;
const MOST_BYTES = 4 * 1024 * 1024;

export type Arg = Buffer | string | number;
// eslint-disable-next-line @typescript-eslint/no-explicit-any
export type Reply = any[];

/** One message in a call: what says its place (a name, or a shard's number), its topic, its id or receipt, the rest. */
export interface Item {
  place: Buffer | number;
  topic: string[];
  args: Arg[];
}

/** What a script answered for one message, in which shard, and with what before it: of a put, the time in µs. */
export interface Answer {
  text: string;
  shard: number;
  head: unknown;
}

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
    if (this.counts.length === 0) await this.call("describe", [], [{ shard: 0, args: [""] }]);
    return this.counts.at(-1)!;
  }

  /** The reply of one call. */
  protected async one(verb: string, shard: number, args: Arg[]): Promise<Reply> {
    for (;;) {
      const [reply] = await this.call(verb, this.counts, [{ shard, args }]);
      if (reply) return reply;
    }
  }

  /** One answer for each item. */
  protected async each(verb: string, items: readonly Item[]): Promise<Answer[]> {
    await this.learn();
    const answers: Answer[] = [];
    // Those without an answer yet, and in how many places they were sought.
    const asked = new Map(items.map((_, i) => [i, 0]));
    while (asked.size > 0) {
      const counts = this.counts;
      const groups = new Map<string, { shard: number; topic: string[]; batch: { i: number; last: boolean; args: Arg[] }[] }>();
      for (const [i, before] of asked) {
        const [places, args] = [placesOf(items[i]!.place, counts), [...items[i]!.args]];
        const last = before + 1 === places.length;
        if (verb === "put") {
          places.reverse(); // first to where it may be since before a growth, in the end where it belongs
          if (!last) args[2] = `${args[2]} earlier`;
        }
        const [shard, topic] = [places[before]!, items[i]!.topic];
        const key = `${shard} ${topic}`;
        if (!groups.has(key)) groups.set(key, { shard, topic, batch: [] });
        groups.get(key)!.batch.push({ i, last, args });
      }
      const calls = [...groups.values()].flatMap(({ shard, topic, batch }) =>
        parts(batch).map((part) => ({ shard, part, args: [...topic, ...part.flatMap(({ args }) => args)] })),
      );
      const replies = await this.call(verb, counts, calls);
      for (const [n, { shard, part }] of calls.entries()) {
        for (const [k, { i, last }] of part.entries()) {
          const text = replies[n] && String(replies[n]!.at(k - part.length));
          if (text && (last || !["unknown", "moved"].includes(text))) {
            answers[i] = { text, shard, head: replies[n]![0] };
            asked.delete(i);
          } else asked.set(i, text ? asked.get(i)! + 1 : 0);
        }
      }
    }
    return answers;
  }

  /**
   * The replies of one script's calls, in one round trip; undefined where the shard had another layout, which is followed
   * then. A Redis that has not got the script is given it.
   */
  private async call(
    verb: string,
    counts: readonly number[],
    calls: readonly { shard: number; args: Arg[] }[],
  ): Promise<(Reply | undefined)[]> {
    const [source, sha] = script(verb);
    // Commands that are issued together go out together, in this order.
    const once = async ({ shard, args }: { shard: number; args: Arg[] }): Promise<Reply> => {
      const base = `{${this.namespace}:${shard}}:`;
      const reply = await this.redis.callBuffer("EVALSHA", [sha, 2, `${base}meta`, `${base}never`, counts.length, ...args]);
      return Array.isArray(reply) ? reply : [reply];
    };
    let replies = await Promise.allSettled(calls.map(once));
    if (replies.some((reply) => codeOf(reply) === "NOSCRIPT")) {
      await this.redis.script("LOAD", source);
      const again = replies.map((reply, i) => (codeOf(reply) === "NOSCRIPT" ? once(calls[i]!) : settled(reply)));
      replies = await Promise.allSettled(again);
    }
    return Promise.all(replies.map((reply, i) => this.checked(calls[i]!.shard, reply)));
  }

  private async checked(shard: number, reply: PromiseSettledResult<Reply>): Promise<Reply | undefined> {
    if (reply.status === "fulfilled") return reply.value;
    if (!codeOf(reply).startsWith("DQ")) throw reply.reason;
    const fault = new ScriptError(reply.reason.message);
    if (fault.code !== "DQLAYOUT") throw fault;
    const [, layout, text] = fault.message.split(" ");
    const [told, known] = [text!.split(",").map(Number), this.counts];
    if (layout !== String(told.length) || told.some((count, i) => i < known.length && count !== known[i])) throw fault;
    // Takes over the layout of a shard that knows more, and tells one that knows less.
    if (told.length >= known.length) this.counts = told;
    else await this.one("grow", shard, [shard, known.join(",")]);
    return undefined;
  }
}

function codeOf(reply: PromiseSettledResult<unknown>): string {
  return reply.status === "rejected" ? String(reply.reason.message).split(" ", 1)[0]! : "";
}

async function settled<T>(reply: PromiseSettledResult<T>): Promise<T> {
  if (reply.status === "fulfilled") return reply.value;
  throw reply.reason;
}

/** Parts what goes to one shard and topic into calls of at most 500 messages and 4 MiB. */
function parts<T extends { args: Arg[] }>(batch: readonly T[]): T[][] {
  const largest = Math.max(...batch.flatMap(({ args }) => args.map((arg) => (Buffer.isBuffer(arg) ? arg.length : 0))));
  const most = Math.min(MOST_IDS, Math.floor(MOST_BYTES / largest));
  return Array.from({ length: Math.ceil(batch.length / most) }, (_, n) => batch.slice(n * most, (n + 1) * most));
}
