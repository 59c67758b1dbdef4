/** Calls of scripts: many messages at a time, in as few calls as the limits allow, wherever they are. */

import type { Redis } from "ioredis";
import { name, placesOf } from "./names.js";
import { Incomplete, outcomeOf, ScriptError, unanswered, type Outcome } from "./outcome.js";
import { script } from "./scripts.js";

/** How much a call may have. */
const [MOST_IDS, MOST_BYTES] = [500, 4 * 1024 * 1024];

/** The scripts that a client calls: its connection gets a command for each. */
const VERBS = "ack bury cancel describe dictionary extend grow put release reschedule reserve".split(" ");

/** undefined for what the script does where nothing is said. */
export type Arg = Buffer | string | number | undefined;
export type Reply = any[];

/** One message in a call: what says its place (a name, or a shard), its topic, and its arguments. */
export type Item = { place: Buffer | number; topic: string[]; args: Arg[]; id?: string; bytes?: number };

/** A deployment, and the calls of its scripts. */
export class Calls {
  readonly namespace: string;
  /** How many shards there were in each layout, the newest last. Replaced as a whole, never changed. */
  protected counts: readonly number[] = [];

  constructor(readonly redis: Redis, namespace: string) {
    if (redis.options.keyPrefix) throw new Error("the connection's keyPrefix hides the deployment's keys");
    this.namespace = name("namespace", namespace);
    for (const verb of VERBS) redis.defineCommand(`delayq_${verb}`, { numberOfKeys: 2, lua: script(verb) });
  }

  /** How many shards there are. The first time, Redis is asked: whoever knows none is refused, and told. */
  protected async learn(): Promise<number> {
    if (this.counts.length === 0) await this.call("describe", 0, [""]);
    return this.counts.at(-1)!;
  }

  /** Carries a verb out for each item. What is answered is told, whatever becomes of the others. */
  protected async each(verb: string, items: readonly Item[]): Promise<Outcome[]> {
    await this.learn();
    const outcomes: Outcome[] = [];
    const fault = await this.fill(verb, items, outcomes).catch((lost: unknown) => lost);
    if (fault === undefined) return outcomes;
    if (outcomes.length === 0) throw fault;
    throw new Incomplete(items.map(({ id }, i) => outcomes[i] ?? unanswered(id)), fault);
  }

  /** Fills the outcomes in. A shard that refuses its call does not keep the others from theirs: why it did. */
  private async fill(verb: string, items: readonly Item[], outcomes: Outcome[]): Promise<unknown> {
    let refused: ScriptError | undefined;
    let counts: readonly number[] = [];
    let left = items.map((item, i) => ({ bytes: 0, ...item, i, places: [] as number[] }));
    while (left.length > 0) {
      if (counts !== this.counts) {
        counts = this.counts;
        for (const one of left) one.places = placesOf(one.place, counts);
        // A put goes first to where it may be since before a growth, in the end to where it belongs.
        if (verb === "put") for (const { places } of left) places.reverse();
      }
      const { places, topic } = left[0]!;
      const [shard, last] = [places[0]!, places.length === 1];
      const like = (one: (typeof left)[0]): boolean =>
        one.places[0] === shard && (one.places.length === 1) === last && one.topic[0] === topic[0];
      let bytes = 0;
      const some = left.filter((one) => like(one) && (bytes += one.bytes) <= MOST_BYTES).slice(0, MOST_IDS);
      const args = some.flatMap((one) => one.args);
      if (verb === "put" && !last) for (let at = 2; at < args.length; at += 4) args[at] += " earlier";
      let reply: Reply | undefined;
      try {
        reply = await this.call(verb, shard, [...topic, ...args], counts);
      } catch (fault) {
        if (!(fault instanceof ScriptError)) throw fault;
        refused = fault;
        left = left.filter((one) => !some.includes(one));
      }
      if (!reply) continue; // another layout: they may belong elsewhere now
      some.forEach((one, n) => {
        const text = String(reply.at(n - some.length));
        if (!last && ["unknown", "moved"].includes(text)) one.places.shift();
        else outcomes[one.i] = outcomeOf(timed(text, one.args[1], reply![0]), shard, one.id);
      });
      left = left.filter(({ i }) => !outcomes[i]);
    }
    return refused;
  }

  /** The reply of one call; undefined where the shard has other counts than these, which it then follows. */
  protected async call(verb: string, shard: number, args: Arg[], counts?: readonly number[]): Promise<any> {
    const base = `{${this.namespace}:${shard}}:`;
    const rest = [(counts ?? this.counts).length, ...args.map((arg) => arg ?? "")];
    try {
      const reply = await (this.redis as any)[`delayq_${verb}Buffer`](`${base}meta`, `${base}never`, ...rest);
      return Array.isArray(reply) ? reply : [reply];
    } catch (fault) {
      if (!(fault instanceof Error && fault.message.startsWith("DQ"))) throw fault;
      await this.follow(shard, new ScriptError(fault.message));
      return counts ? undefined : this.call(verb, shard, args);
    }
  }

  /** Takes over the layout of a shard that knows more, and tells one that knows less. */
  private async follow(shard: number, refusal: ScriptError): Promise<void> {
    const [, layout, text = ""] = refusal.message.split(" ");
    const [told, known] = [text.split(",").map(Number), this.counts];
    const same = told.every((count, i) => i >= known.length || count === known[i]);
    if (refusal.code !== "DQLAYOUT" || layout !== String(told.length) || !same) throw refusal;
    if (told.length >= known.length) this.counts = told;
    else await this.call("grow", shard, [shard, known.join(",")]);
  }
}

/** The answer of a put with its due time: one in ms, or "+" and a delay from the reply's time in µs. */
function timed(text: string, due: Arg, nowUs: number): string {
  if (text !== "stored" && text !== "ready") return text;
  return `${text} ${typeof due === "number" ? due : Math.floor(nowUs / 1000) + Number(due)}`;
}
