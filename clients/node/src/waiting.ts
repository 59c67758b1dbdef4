/** Pipelines that wait for replicas or a disk, each on a connection of its own: Redis answers nothing else on it meanwhile. */

import type { Cluster, Redis } from "ioredis";
import { connectionFor, end, PATIENCE_MS, ready, relearn } from "./connections.js";
import { Confirming, type Waits } from "./durability.js";
import { TimeoutError } from "./outcome.js";
import { scriptOf } from "./scripts.js";

/** How many pipelines that wait for the same are under way at once. */
const MAX_WAITING = 8;
/** How often a call is sent: a slot does not move more often than that during one call. */
const TRIPS = 6;

/** A call of a script: its keys, and the arguments behind them. */
export type WaitingCall = { verb: string; keys: [string, string]; args: (string | number | Buffer)[] };

type Connection = Redis | Cluster;
type Lane = { idle: Connection[]; busy: number; queue: (() => void)[] };
/** What the pipelines of one call share, and all that they have written. */
type Course = { connection: Connection; waits: Waits; deadline: Deadline; written: Promise<unknown>[] };

/** The connections for calls that wait, by their node and what they wait for. */
export class Waiting {
  private readonly lanes = new Map<string, Lane>();
  /** Those in use, and the idle ones. */
  private readonly all = new Set<Connection>();
  private isClosed = false;

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
    try {
      await this.enter(lane, deadline);
      const course: Course = { connection: this.idle(lane) ?? this.connection(node), waits, deadline, written: [] };
      try {
        await deadline.within(ready(course.connection));
        return await this.trips(course, calls);
      } finally {
        void this.giveBack(lane, course);
      }
    } catch (reason) {
      return calls.map(rejected(reason));
    } finally {
      deadline.end();
    }
  }

  close(): void {
    this.isClosed = true;
    for (const connection of this.all) this.drop(connection);
  }

  private async trips(course: Course, calls: readonly WaitingCall[]): Promise<PromiseSettledResult<any>[]> {
    const { connection, deadline } = course;
    const answers: PromiseSettledResult<any>[] = [];
    let unknown: number[] = [];
    let left = [...calls.keys()];
    for (let trip = 0; trip < TRIPS && left.length > 0; trip++) {
      const nodeOf = (i: number): Redis | undefined => connectionFor(connection, calls[i]!.keys[0]);
      // ioredis forgets a node whose connection ended, until it next reads the map.
      if (!left.every(nodeOf)) await deadline.within(relearn(connection));
      const nodes = new Map<Redis | undefined, number[]>();
      for (const i of left) {
        const node = nodeOf(i);
        nodes.set(node, [...(nodes.get(node) ?? []), i]);
      }
      await Promise.all([...nodes].map(async ([node, some]) => {
        const loads = [...new Set(some.filter((i) => unknown.includes(i)).map((i) => calls[i]!.verb))];
        const commands = some.map((i) => command(calls[i]!));
        const replies = await this.trip(course, node, loads, commands).catch((reason) => commands.map(rejected(reason)));
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
      unknown = left.filter((i) => refused(i, "NOSCRIPT"));
      left = left.filter((i) => unknown.includes(i) || refused(i, "MOVED"));
    }
    return answers;
  }

  /** One pipeline to one node, which is given the scripts of these verbs first; rejects if nothing was written. */
  private async trip(
    { waits, deadline, written }: Course, node: Redis | undefined, loads: readonly string[], commands: readonly any[][],
  ): Promise<PromiseSettledResult<any>[]> {
    if (!node) throw new Error("no node of the cluster has the shard's slot");
    await deadline.within(ready(node));
    const before = loads.map((verb) => ["SCRIPT", "LOAD", scriptOf(verb).source]);
    // At most half of what is left: it may have to be sent once more.
    const confirming = new Confirming(waits, Math.min(this.confirmTimeoutMs, deadline.leftMs / 2));
    // In one turn, and so in one pipeline.
    const replies = [...before, ...commands, ...confirming.commands].map(([name, ...args]) => node.callBuffer(String(name), args));
    written.push(...replies);
    const answers = await Promise.allSettled(replies.map((reply) => deadline.within(reply)));
    answers.splice(0, before.length); // a script that could not be loaded is unknown still
    const unconfirmed = confirming.fault(answers.splice(commands.length));
    if (!unconfirmed) return answers;
    return answers.map((answer) => (answer.status === "rejected" ? answer : rejected(unconfirmed)()));
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

  /**
   * Ends a turn. Its connection is kept for the next call, even while it is still being made: otherwise no call would get one
   * where that takes longer than a call has. One that owes an answer is kept only if that comes soon.
   */
  private async giveBack(lane: Lane, { connection, deadline, written }: Course): Promise<void> {
    if (deadline.isOver && written.length > 0) {
      const patience = new Deadline(PATIENCE_MS);
      await patience.within(Promise.allSettled(written)).catch(() => this.drop(connection));
      patience.end();
    }
    if (this.all.has(connection)) lane.idle.push(connection);
    this.leave(lane);
  }

  /** One that can be used, or else the one that has been waiting to be made the longest. */
  private idle(lane: Lane): Connection | undefined {
    for (const one of lane.idle) if (one.status === "end") this.drop(one);
    lane.idle = lane.idle.filter((one) => this.all.has(one));
    const at = lane.idle.findLastIndex(({ status }) => status === "ready");
    return lane.idle.splice(Math.max(at, 0), 1)[0];
  }

  private connection(node: string): Connection {
    const made = this.make(node);
    this.all.add(made);
    if (this.isClosed) this.drop(made);
    return made;
  }

  private drop(connection: Connection): void {
    this.all.delete(connection);
    end(connection);
  }
}

const rejected = (reason: unknown) => (): PromiseRejectedResult => ({ status: "rejected", reason });

const command = ({ verb, keys, args }: WaitingCall): any[] => ["EVALSHA", scriptOf(verb).sha, 2, ...keys, ...args];

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
      pass = () => reject(new TimeoutError(this.timeoutMs, true, new Promise(() => undefined)));
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
