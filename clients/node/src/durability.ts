/**
 * Durability: writes that are answered only after replicas or disk confirm.
 *
 * A script refuses a call that does not wait as the topic requires, before any write. The refusal teaches the client the
 * durability, which is cached for some seconds; the first call after that does not wait, and asks again.
 */

import { ScriptError, Unconfirmed } from "./outcome.js";

/** Required confirmations, separated by spaces, such as `disk replica:1`; "" for none. */
export type Waits = string;

/** Key of the durabilities of all topics, for changes of groups. */
export const EVERY_TOPIC = "";
/** Maximum attempts of a call whose durability is still unknown. */
export const ROUNDS = 4;
/** How long a learned durability is cached. */
const BELIEVED_MS = 10_000;

export class Durabilities {
  private readonly known = new Map<string, { waits: Waits; untilMs: number }>();

  /** Returns the required confirmations; "" if none are known. */
  waits(topic: string): Waits {
    if (this.known.size === 0) return "";
    const known = this.known.get(topic);
    if (known && known.untilMs >= performance.now()) return known.waits;
    this.known.delete(topic);
    return "";
  }

  /** Reports whether a call was refused for its durability, and caches the durability. */
  learn(topic: string, fault: unknown): boolean {
    if (!(fault instanceof ScriptError) || fault.code !== "DQDURABILITY") return false;
    const asked = new Set([fault.message.split(" ")[1]!]);
    if (topic === EVERY_TOPIC) for (const word of this.waits(topic).split(" ")) if (word !== "") asked.add(word);
    this.known.set(topic, { waits: [...asked].sort().join(" "), untilMs: performance.now() + BELIEVED_MS });
    return true;
  }
}

/** Sent at the end of a pipeline, on the same connection: newer servers count from the last write of a connection. */
export class Confirming {
  private readonly isDisk: boolean;
  private readonly replicas: number;
  private readonly withinMs: number;
  /** Redis runs both commands in sequence. */
  readonly commands: (string | number)[][];

  constructor(private readonly waits: Waits, withinMs: number) {
    this.isDisk = waits.split(" ").includes("disk");
    this.replicas = Math.max(0, ...[...waits.matchAll(/replica:(\d)/g)].map(([, count]) => Number(count)));
    const both = this.isDisk && this.replicas > 0;
    this.withinMs = Math.max(1, Math.floor(both ? withinMs / 2 : withinMs)); // Redis takes 0 for ever
    this.commands = [
      ...(this.isDisk ? [["WAITAOF", 1, 0, this.withinMs]] : []),
      ...(this.replicas > 0 ? [["WAIT", this.replicas, this.withinMs]] : []),
    ];
  }

  /** Returns the missing confirmations; undefined if all arrived. */
  fault(answers: readonly PromiseSettledResult<any>[]): Unconfirmed | undefined {
    const whys = answers.flatMap((answer, n) => this.why(String(this.commands[n]![0]), answer) ?? []);
    return whys.length > 0 ? new Unconfirmed(this.waits, whys.join("; ")) : undefined;
  }

  private why(command: string, answer: PromiseSettledResult<any>): string | undefined {
    if (answer.status === "rejected") return `${command}: ${answer.reason?.message}`;
    if (command === "WAITAOF") {
      return answer.value[0] >= 1 ? undefined : `no confirmation from the master's disk within ${this.withinMs} ms`;
    }
    if (answer.value >= this.replicas) return undefined;
    return `${answer.value} of ${this.replicas} replicas confirmed within ${this.withinMs} ms`;
  }
}
