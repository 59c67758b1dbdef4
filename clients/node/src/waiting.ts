/** Pipelines that wait for replicas or a disk, each on a connection of its own: Redis answers nothing else on it meanwhile. */

import { createHash } from "node:crypto";
import type { Cluster, Redis } from "ioredis";
import { connectionFor, end, relearn } from "./connections.js";
import { Confirming, type Waits } from "./durability.js";
import { TimeoutError } from "./outcome.js";
import { script } from "./scripts.js";

/** How many pipelines that wait for the same are under way at once. */
const MAX_WAITING = 8;
/** How often a call is sent: a slot does not move more often than that during one call. */
const TRIPS = 6;

/** A call of a script: its keys, and the arguments behind them. */
export type WaitingCall = { verb: string; keys: [string, string]; args: (string | number | Buffer)[] };

type Connection = Redis | Cluster;
type Lane = { idle: Connection[]; busy: number; queue: (() => void)[] };

/** The connections for calls that wait, by their node and what they wait for. */
export class Waiting {
  private readonly lanes = new Map<string, Lane>();
  private readonly scripts = new Map<string, { source: string; sha: string }>();
  private readonly all = new Set<Connection>();

  /** `make` makes a connection, to one of several Redises by its name; each pipeline ends by the deadline, and at most half of that is waited. */
  constructor(
    private readonly make: (node: string) => Connection,
    private readonly timeoutMs: number,
    private readonly confirmTimeoutMs: number,
    /** Called when a slot of a cluster is at another node than before. */
    private readonly moved: () => void,
  ) {}

  /** What is answered to calls, those for each node in one pipeline, once what they wait for has confirmed it. */
  async send(waits: Waits, calls: readonly WaitingCall[], node = ""): Promise<PromiseSettledResult<any>[]> {
    const deadline = new Deadline(this.timeoutMs);
    const lane = this.lane(`${node} ${waits}`);
    let connection: Connection | undefined;
    let isWhole = false;
    try {
      await this.enter(lane, deadline);
      try {
        connection = this.usable(lane) ?? this.connection(node);
        if (connection.status === "wait") await deadline.within(connection.connect());
        const answers = await this.trips(connection, waits, calls, deadline);
        isWhole = !deadline.isOver;
        return answers;
      } finally {
        this.leave(lane);
      }
    } catch (reason) {
      return calls.map(() => ({ status: "rejected", reason }));
    } finally {
      deadline.end();
      if (connection && isWhole) lane.idle.push(connection);
      else if (connection) this.drop(connection);
    }
  }

  close(): void {
    for (const connection of this.all) this.drop(connection);
  }

  private async trips(
    connection: Connection, waits: Waits, calls: readonly WaitingCall[], deadline: Deadline,
  ): Promise<PromiseSettledResult<any>[]> {
    const answers: PromiseSettledResult<any>[] = [];
    const unknown = new Set<number>();
    let left = [...calls.keys()];
    for (let trip = 0; trip < TRIPS && left.length > 0; trip++) {
      const nodes = new Map<Redis | undefined, number[]>();
      for (const i of left) {
        const node = connectionFor(connection, calls[i]!.keys[0]);
        nodes.set(node, [...(nodes.get(node) ?? []), i]);
      }
      await Promise.all([...nodes].map(async ([node, some]) => {
        const commands = some.map((i) => this.command(calls[i]!, unknown.has(i)));
        const replies = await this.trip(node, waits, commands, deadline);
        some.forEach((i, n) => (answers[i] = replies[n]!));
      }));
      const refused = (i: number, code: string): boolean => {
        const answer = answers[i]!;
        return answer.status === "rejected" && String(answer.reason?.message).startsWith(code);
      };
      if (left.some((i) => refused(i, "MOVED"))) {
        this.moved();
        await deadline.within(relearn(connection));
      }
      left = left.filter((i) => {
        const isUnknown = refused(i, "NOSCRIPT") && !unknown.has(i);
        if (isUnknown) unknown.add(i);
        return isUnknown || refused(i, "MOVED");
      });
    }
    return answers;
  }

  /** One pipeline to one node. */
  private async trip(
    node: Redis | undefined, waits: Waits, commands: readonly any[][], deadline: Deadline,
  ): Promise<PromiseSettledResult<any>[]> {
    if (!node) return commands.map(() => ({ status: "rejected", reason: new Error("no node of the cluster has the shard's slot") }));
    // At most half of what is left: it may have to be sent once more.
    const confirming = new Confirming(waits, Math.min(this.confirmTimeoutMs, deadline.leftMs / 2));
    // In one turn, and so in one pipeline.
    const replies = [...commands, ...confirming.commands].map(([name, ...args]) => node.callBuffer(name, args));
    const answers = await Promise.allSettled(replies.map((reply) => deadline.within(reply)));
    const unconfirmed = confirming.fault(answers.splice(commands.length));
    if (!unconfirmed) return answers;
    return answers.map((answer) => (answer.status === "rejected" ? answer : { status: "rejected", reason: unconfirmed }));
  }

  private command({ verb, keys, args }: WaitingCall, isUnknown: boolean): any[] {
    const known = this.scripts.get(verb) ?? { source: script(verb), sha: "" };
    known.sha ||= createHash("sha1").update(known.source).digest("hex");
    this.scripts.set(verb, known);
    return [...(isUnknown ? ["EVAL", known.source] : ["EVALSHA", known.sha]), 2, ...keys, ...args];
  }

  private lane(kind: string): Lane {
    const lane = this.lanes.get(kind) ?? { idle: [], busy: 0, queue: [] };
    this.lanes.set(kind, lane);
    return lane;
  }

  /** Waits for a turn. */
  private async enter(lane: Lane, deadline: Deadline): Promise<void> {
    if (lane.busy < MAX_WAITING) {
      lane.busy++;
      return;
    }
    let take = (): void => undefined;
    const turn = new Promise<void>((resolve) => (take = resolve));
    lane.queue.push(take);
    try {
      await deadline.within(turn);
    } catch (fault) {
      const at = lane.queue.indexOf(take);
      if (at >= 0) lane.queue.splice(at, 1);
      else this.leave(lane); // it was given the turn meanwhile
      throw fault;
    }
  }

  /** Gives a turn to the next one. */
  private leave(lane: Lane): void {
    const next = lane.queue.shift();
    if (next) next();
    else lane.busy--;
  }

  private usable(lane: Lane): Connection | undefined {
    for (let one = lane.idle.pop(); one; one = lane.idle.pop()) {
      if (one.status === "ready") return one;
      this.drop(one);
    }
    return undefined;
  }

  private connection(node: string): Connection {
    const made = this.make(node);
    this.all.add(made);
    return made;
  }

  private drop(connection: Connection): void {
    this.all.delete(connection);
    end(connection);
  }
}

/** When all of a call has to be answered. */
class Deadline {
  private readonly untilMs: number;
  private readonly timer: NodeJS.Timeout;
  private readonly passed: Promise<never>;
  isOver = false;

  constructor(private readonly timeoutMs: number) {
    this.untilMs = performance.now() + timeoutMs;
    let pass = (): void => undefined;
    this.passed = new Promise((_, reject) => {
      pass = () => reject(new TimeoutError(`Redis did not answer within ${this.timeoutMs} ms`, new Promise(() => undefined)));
    });
    this.passed.catch(() => undefined);
    this.timer = setTimeout(() => {
      this.isOver = true;
      pass();
    }, timeoutMs);
  }

  get leftMs(): number {
    return Math.max(0, this.untilMs - performance.now());
  }

  within<T>(work: Promise<T>): Promise<T> {
    return Promise.race([work, this.passed]);
  }

  end(): void {
    clearTimeout(this.timer);
  }
}
