/** The client: one deployment's shards and the scripts on them, over ioredis. */

import type { Redis } from "ioredis";
import { decode, EnvelopeError, type Envelope } from "./envelope.js";
import { InvalidMessage, MessageId, namespaceName, shardOfName, topicName } from "./ids.js";
import { check, dueOf, envelopeOf, MAX_PAYLOAD_BYTES, optionsOf, type Message } from "./message.js";
import { script } from "./scripts.js";

const LAYOUT = 1;
const MOST_IDS = 500;
const MOST_BYTES = 4 * 1024 * 1024;

/** One call of a script; its arguments follow the layout. */
export interface Call {
  verb: string;
  shard: number;
  args: (Buffer | string | number)[];
}

type Reply = (Buffer | number)[];

/** What a script answered for one message: a word, and what belongs to it. docs/protocol.md lists the words. */
export interface Answer {
  word: string;
  /** When it is due; of what is over, when it ended; of a lease, its end. Ms since the epoch, on Redis's clock. */
  timeMs?: number;
  /** When it was due before. */
  oldMs?: number;
  /** The state or the outcome that the answer names. */
  state?: string;
  /** Why it was refused or failed. */
  why?: string;
  /** A cancel came while it was leased: it will not be tried again. */
  doomed?: boolean;
}

/** What became of a put, and what finds the message again. */
export interface Put {
  id: MessageId;
  shard: number;
  answer: Answer;
  /** Whether the message is kept, by this put or an earlier one. */
  accepted: boolean;
}

/** The right to settle one delivery of one message. */
export interface Receipt {
  shard: number;
  raw: Buffer;
}

/** A message under lease; its attempt and delivery count this one. */
export interface Delivery {
  receipt: Receipt;
  topic: string;
  id: MessageId;
  readyUs: number;
  leaseEndMs: number;
  envelope: Envelope;
}

/** What a reserve found, and when to come back without being woken: at once (0), later, or no reason to. */
export interface Reserved {
  deliveries: Delivery[];
  /** Leased messages whose envelope cannot be read, and why: bury them. */
  broken: { receipt: Receipt; why: string }[];
  waitMs: number | undefined;
}

/**
 * A change of a due time. With `expectedMs` it is carried out only where the message is due then until now; a relative
 * one always needs it, so that a repeat moves nothing twice.
 */
export type Change =
  | { kind: "at" | "after"; ms: number; expectedMs?: number }
  | { kind: "by"; ms: number; expectedMs: number };

/** A script refused the whole call; its code says why: DQUNINITIALISED, DQLAYOUT, DQTYPE or DQARG. */
export class ScriptError extends Error {
  override name = "ScriptError";
  readonly code: string;

  constructor(message: string) {
    super(message);
    this.code = message.split(" ", 1)[0]!;
  }
}

export interface Options {
  /** What the deployment's keys begin with. */
  namespace?: string;
  /** How many shards it was created with. */
  shards?: number;
  mostPayloadBytes?: number;
}

export function parseAnswer(text: string): Answer {
  const [word, ...words] = text.split(" ") as [string, ...string[]];
  const numbers = words.map(Number);
  if (/^\d+$/.test(word)) return { word: "extended", timeMs: Number(word), doomed: false };
  if (word === "cancelled" && words.length > 0) return { word: "extended", timeMs: numbers[0]!, doomed: true };
  if (word === "refused" || word === "failed") return { word, why: words.join(" ") };
  if (["exists", "conflict", "finished"].includes(word)) return { word, state: words[0]!, timeMs: numbers[1]! };
  if (words.length === 2) return { word, oldMs: numbers[0]!, timeMs: numbers[1]! };
  return words.length === 1 ? { word, timeMs: numbers[0]! } : { word };
}

/** A deployment of delayq on this Redis. All verbs are safe to repeat; see the README for what a repeat does. */
export class Client {
  readonly namespace: string;
  readonly shards: number;
  private readonly mostPayloadBytes: number;
  private turn: number;

  constructor(
    readonly redis: Redis,
    { namespace = "dq", shards = 16, mostPayloadBytes = 262144 }: Options = {},
  ) {
    if (!(Number.isInteger(shards) && shards >= 1 && shards <= 4096)) throw new RangeError("1 to 4096 shards");
    if (redis.options.keyPrefix) throw new Error("the connection's keyPrefix would hide the deployment's keys");
    this.namespace = namespaceName(namespace);
    this.shards = shards;
    this.mostPayloadBytes = Math.min(mostPayloadBytes, MAX_PAYLOAD_BYTES);
    this.turn = Math.floor(Math.random() * shards);
  }

  generateId(group?: string): MessageId {
    const shard = group === undefined ? this.nextShard() : shardOfName(group, this.shards);
    return MessageId.generate(shard, Date.now());
  }

  async put(message: Message): Promise<Put> {
    return (await this.putMany([message]))[0]!;
  }

  async putMany(messages: readonly Message[]): Promise<Put[]> {
    const placed = messages.map((message) => this.place(message));
    const puts: Put[] = [];
    for (const group of groupBy(placed.keys(), (i) => `${placed[i]!.shard} ${messages[i]!.topic}`)) {
      for (const batch of batches(group, (i) => placed[i]!.envelope.length)) {
        const { shard } = placed[batch[0]!]!;
        const item = (i: number) => [placed[i]!.id.raw, dueOf(messages[i]!), optionsOf(messages[i]!), placed[i]!.envelope];
        const call = { verb: "put", shard, args: [messages[batch[0]!]!.topic, ...batch.flatMap(item)] };
        const [now, ...answers] = (await this.send([call]))[0]!;
        batch.forEach((i, n) => {
          const answer = parseAnswer(String(answers[n]));
          const accepted = ["stored", "ready", "exists"].includes(answer.word);
          const { atMs, afterMs = 0 } = messages[i]!;
          if (answer.word === "stored" || answer.word === "ready") {
            answer.timeMs = atMs ?? Math.floor(Number(now) / 1000) + afterMs;
          }
          puts[i] = { id: placed[i]!.id, shard, answer, accepted };
        });
      }
    }
    return puts;
  }

  cancel(topic: string, id: string | MessageId, group?: string): Promise<Answer> {
    return this.change("cancel", topic, id, group, []);
  }

  async reschedule(topic: string, id: string | MessageId, change: Change, group?: string): Promise<Answer> {
    const { kind, ms, expectedMs } = change;
    if (!Number.isSafeInteger(ms) || (kind !== "by" && ms < 0)) throw new RangeError(`${ms} is no time in ms`);
    if (kind === "by" && expectedMs === undefined) throw new RangeError("a relative move needs the expected due time");
    const due = { at: `${ms}`, after: `+${ms}`, by: `by ${ms < 0 ? "" : "+"}${ms}` }[kind];
    return this.change("reschedule", topic, id, group, [due, expectedMs ?? ""]);
  }

  /** From the first shard that has any, beginning behind the one that was asked last; or from `shard`. */
  async reserve(topics: readonly string[], most = 1, leaseMs?: number, shard?: number): Promise<Reserved> {
    const args = [most, 0, leaseMs ?? "", ...topics.map(topicName)];
    let waitMs: number | undefined;
    for (let asked = 0; asked < (shard === undefined ? this.shards : 1); asked++) {
      const from = shard ?? this.nextShard();
      const reply = (await this.send([{ verb: "reserve", shard: from, args }]))[0]!;
      if (typeof reply[1] === "number") waitMs = Math.min(reply[1], waitMs ?? Infinity);
      const { deliveries, broken } = readDeliveries(from, topics, reply.slice(6));
      if (deliveries.length + broken.length > 0) return { deliveries, broken, waitMs };
    }
    return { deliveries: [], broken: [], waitMs };
  }

  extend(receipts: readonly Receipt[], leaseMs?: number): Promise<Answer[]> {
    return this.settle("extend", receipts, [leaseMs ?? ""]);
  }

  ack(receipts: readonly Receipt[]): Promise<Answer[]> {
    return this.settle("ack", receipts, []);
  }

  release(
    receipts: readonly Receipt[],
    { delayMs, keepAttempt = false, reason = "" }: { delayMs?: number; keepAttempt?: boolean; reason?: string } = {},
  ): Promise<Answer[]> {
    return this.settle("release", receipts, [delayMs ?? "", keepAttempt ? "keep" : "", reason]);
  }

  bury(receipts: readonly Receipt[], reason: string): Promise<Answer[]> {
    return this.settle("bury", receipts, [reason]);
  }

  /** One round trip; where Redis does not know a script, a second one for the calls that need it. */
  async send(calls: readonly Call[]): Promise<Reply[]> {
    const replies = await this.attempt(calls);
    const missing = [...replies.keys()].filter((i) => String(fault(replies[i]!)).includes("NOSCRIPT"));
    if (missing.length > 0) {
      const verbs = new Set(missing.map((i) => calls[i]!.verb));
      await Promise.all([...verbs].map((verb) => this.redis.script("LOAD", script(verb).source)));
      const again = await this.attempt(missing.map((i) => calls[i]!));
      missing.forEach((i, n) => (replies[i] = again[n]!));
    }
    return replies.map((reply) => {
      if (reply.status === "fulfilled") return Array.isArray(reply.value) ? reply.value : [reply.value];
      const message = String((reply.reason as Error).message);
      throw message.startsWith("DQ") ? new ScriptError(message) : reply.reason;
    });
  }

  private attempt(calls: readonly Call[]): Promise<PromiseSettledResult<Reply | Buffer>[]> {
    // Commands that are issued together go out together, in this order.
    const one = ({ verb, shard, args }: Call): Promise<Reply | Buffer> => {
      const base = `{${this.namespace}:${shard}}:`;
      const head = [script(verb).sha, 2, `${base}meta`, `${base}never`, LAYOUT];
      return this.redis.callBuffer("EVALSHA", [...head, ...args]) as Promise<Reply | Buffer>;
    };
    return Promise.allSettled(calls.map(one));
  }

  private nextShard(): number {
    this.turn = (this.turn + 1) % this.shards;
    return this.turn;
  }

  private place(message: Message): { id: MessageId; shard: number; envelope: Buffer } {
    check(message, this.mostPayloadBytes);
    const { group } = message;
    const id = typeof message.id === "string" ? MessageId.own(message.id) : (message.id ?? this.generateId(group));
    const shard = id.shard(group, this.shards);
    if (group !== undefined && shard !== shardOfName(group, this.shards)) {
      throw new InvalidMessage(`${id} was generated for another shard than its group's`);
    }
    return { id, shard, envelope: envelopeOf(message, id) };
  }

  private async change(
    verb: string,
    topic: string,
    id: string | MessageId,
    group: string | undefined,
    args: (string | number)[],
  ): Promise<Answer> {
    const target = typeof id === "string" ? MessageId.own(id) : id;
    const call = { verb, shard: target.shard(group, this.shards), args: [topicName(topic), target.raw, ...args] };
    return parseAnswer(String((await this.send([call]))[0]![0]));
  }

  /** One call a shard and 500 receipts, all in one round trip. */
  private async settle(verb: string, receipts: readonly Receipt[], args: (string | number)[]): Promise<Answer[]> {
    const parts = groupBy(receipts.keys(), (i) => receipts[i]!.shard).flatMap((some) => [...batches(some, () => 0)]);
    const call = (part: number[]): Call => ({
      verb,
      shard: receipts[part[0]!]!.shard,
      args: part.flatMap((i) => [receipts[i]!.raw, ...args]),
    });
    const answers: Answer[] = [];
    const replies = await this.send(parts.map(call));
    parts.forEach((part, n) => part.forEach((i, k) => (answers[i] = parseAnswer(String(replies[n]![k])))));
    return answers;
  }
}

function fault(reply: PromiseSettledResult<unknown>): string | undefined {
  return reply.status === "rejected" ? (reply.reason as Error).message : undefined;
}

function groupBy(items: Iterable<number>, key: (item: number) => string | number): number[][] {
  const groups = new Map<string | number, number[]>();
  for (const item of items) groups.set(key(item), [...(groups.get(key(item)) ?? []), item]);
  return [...groups.values()];
}

function* batches(items: number[], bytes: (item: number) => number): Generator<number[]> {
  let [batch, size] = [[] as number[], 0];
  for (const item of items) {
    if (batch.length === MOST_IDS || (batch.length > 0 && size + bytes(item) > MOST_BYTES)) {
      yield batch;
      [batch, size] = [[], 0];
    }
    batch.push(item);
    size += bytes(item);
  }
  if (batch.length > 0) yield batch;
}

function readDeliveries(shard: number, topics: readonly string[], items: Reply): Omit<Reserved, "waitMs"> {
  const found: Omit<Reserved, "waitMs"> = { deliveries: [], broken: [] };
  for (let at = 0; at < items.length; ) {
    const [place, leaseEndMs, count] = items.slice(at, at + 3) as [number, number, number];
    at += 3;
    for (const end = at + 3 * count; at < end; at += 3) {
      const [readyUs, raw, stored] = items.slice(at, at + 3) as [number, Buffer, Buffer];
      const receipt = { shard, raw };
      const id = MessageId.fromBytes(raw.subarray(raw.indexOf(":") + 1, -4));
      try {
        const envelope = decode(stored);
        envelope.attempt = Math.min(envelope.attempt + 1, 65535);
        envelope.delivery += 1;
        found.deliveries.push({ receipt, topic: topics[place - 1]!, id, readyUs, leaseEndMs, envelope });
      } catch (error) {
        if (!(error instanceof EnvelopeError)) throw error;
        found.broken.push({ receipt, why: error.message });
      }
    }
  }
  return found;
}
