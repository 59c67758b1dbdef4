/** Pipelines that wait for replicas or disk, each on a separate connection: WAIT blocks the connection. */

import type { Cluster, Redis } from "ioredis";
import { connectionFor, end, PATIENCE_MS, ready, relearn } from "./connections.js";
import { Confirming, type Waits } from "./durability.js";
import { TimeoutError } from "./outcome.js";
import { scriptOf } from "./scripts.js";

/** Maximum pipelines in flight with the same durability. */
const MAX_WAITING = 8;
/** Maximum attempts of a call; a slot does not move more often during one call. */
const TRIPS = 6;

/** A script call: keys and arguments. */
export type WaitingCall = { verb: string; keys: [string, string]; args: (string | number | Buffer)[] };

type Connection = Redis | Cluster;
type Lane = { idle: Connection[]; busy: number; queue: (() => void)[] };
/** State shared by the pipelines of one call, including all writes. */
type Course = { connection: Connection; waits: Waits; deadline: Deadline; written: Promise<unknown>[] };

/** The connections of waiting calls, by node and durability. */
export class Waiting {
  private readonly lanes = new Map<string, Lane>();
  /** Connections in use, and idle connections. */
  private readonly all = new Set<Connection>();
  private isClosed = false;

  /** `make` connects to a node by name. Each pipeline ends by the deadline, and waits for at most half of the deadline. */
  constructor(
    private readonly make: (node: string) => Connection,
    private readonly timeoutMs: number,
    private readonly confirmTimeoutMs: number,
    /** Called when a slot has moved to another node. */
    private readonly moved: () => void,
  ) {}

  /** Sends calls in one pipeline per node, and returns the answers after the confirmations. */
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
      // ioredis forgets a node after the end of a connection, until the next update of the slot map.
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

  /** Sends one pipeline, which first loads the scripts of `verbs`; rejects if nothing was written. */
  private async trip(
    { waits, deadline, written }: Course, node: Redis | undefined, loads: readonly string[], commands: readonly any[][],
  ): Promise<PromiseSettledResult<any>[]> {
    if (!node) throw new Error("no node of the cluster has the shard's slot");
    await deadline.within(ready(node));
    const before = loads.map((verb) => ["SCRIPT", "LOAD", scriptOf(verb).source]);
    // At most half of the remaining time, which leaves time for one resend.
    const confirming = new Confirming(waits, Math.min(this.confirmTimeoutMs, deadline.leftMs / 2));
    // One turn of the event loop makes one pipeline.
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

  private leave(lane: Lane): void {
    const next = lane.queue.shift();
    if (next) next();
    else lane.busy--;
  }

  /**
   * Ends a turn, and keeps the connection for the next call, even if still connecting: with a connect time above the deadline,
   * no call would ever get a connection. A connection that owes an answer is kept only if the answer comes soon.
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

  /** Returns a usable connection, or else the oldest one that is still connecting. */
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
