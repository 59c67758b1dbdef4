/**
 * Topics whose writes are answered only once replicas or a disk have them.
 *
 * A call that does not wait as its topic asks is refused before anything is written. So a client learns of it by being
 * refused, and believes it for some seconds; the first call after that does not wait, and asks again.
 */

import { ScriptError, Unconfirmed } from "./outcome.js";

/** What is waited for: nothing, or words parted by spaces, such as `disk replica:1`. */
export type Waits = string;

/** Stands for all topics: what changes a group waits for what each of them asks. */
export const EVERY_TOPIC = "";
/** How often a call is sent that is refused for not waiting as its topic asks. */
export const ROUNDS = 4;
/** How long it is believed what a topic asks. */
const BELIEVED_MS = 10_000;

/** What is known of topics. */
export class Durabilities {
  private readonly known = new Map<string, { waits: Waits; untilMs: number }>();

  /** What to wait for; nothing where nothing is known. */
  waits(topic: string): Waits {
    const known = this.known.get(topic);
    if (known && known.untilMs >= performance.now()) return known.waits;
    this.known.delete(topic);
    return "";
  }

  /** Whether a call was refused for not waiting. What the topic asks is known then. */
  learn(topic: string, fault: unknown): boolean {
    if (!(fault instanceof ScriptError) || fault.code !== "DQDURABILITY") return false;
    const asked = new Set([fault.message.split(" ")[1]!]);
    if (topic === EVERY_TOPIC) for (const word of this.waits(topic).split(" ")) if (word !== "") asked.add(word);
    this.known.set(topic, { waits: [...asked].sort().join(" "), untilMs: performance.now() + BELIEVED_MS });
    return true;
  }
}

/** What goes behind the calls of one pipeline, and on their connection: newer servers count from its last write. */
export class Confirming {
  private readonly isDisk: boolean;
  private readonly replicas: number;
  private readonly withinMs: number;
  /** Redis carries out one after the other. */
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

  /** Why the calls are not confirmed, by the answers to the commands; undefined where all of it is. */
  fault(answers: readonly PromiseSettledResult<any>[]): Unconfirmed | undefined {
    const whys = answers.flatMap((answer, n) => this.why(String(this.commands[n]![0]), answer) ?? []);
    return whys.length > 0 ? new Unconfirmed(this.waits, whys.join("; ")) : undefined;
  }

  private why(command: string, answer: PromiseSettledResult<any>): string | undefined {
    if (answer.status === "rejected") return `${command}: ${answer.reason?.message}`;
    if (command === "WAITAOF") {
      return answer.value[0] >= 1 ? undefined : `the master's disk did not confirm within ${this.withinMs} ms`;
    }
    if (answer.value >= this.replicas) return undefined;
    return `${answer.value} of ${this.replicas} replicas confirmed within ${this.withinMs} ms`;
  }
}
