/** Topics: messages by state, dead letters, counts and policy. */

import { listOf, optionsOf, rangeOf, spanMs, wordOf, type Time } from "./arguments.js";
import type { Calls } from "./calls.js";
import { isGenerated, name, storedId, topicArg } from "./names.js";
import type { Outcome, Words } from "./outcome.js";
import type { Restorer } from "./payload.js";
import { policyOf, settingsOf, type Policy, type PolicyPatch } from "./policy.js";
import { MAX_IDS_A_CALL } from "./protocol.js";
import { inSteps, PROMOTED } from "./steps.js";
import { storedOf, type Stored } from "./stored.js";

/** Inclusive limits of due times of delayed messages, lease ends of leased messages, or times of death. */
export type Range = {
  from?: Time;
  to?: Time;
  /** Accepts times before 2001 or after 9999. */
  pastOk?: boolean;
};

/** Counts of messages by state, and from `accepted` on of all messages ever. */
export interface Numbers {
  delayed: number;
  ready: number;
  leased: number;
  dead: number;
  accepted: number;
  delivered: number;
  cancelled: number;
  expired: number;
  purged: number;
  replaced: number;
  buried: number;
  /** Keys of another type, whose messages are not counted. */
  unreadable: number;
  /** Due time of the next delayed message, or earlier. */
  nextDueMs?: number;
}

/** A paused group of a topic. */
export type PausedGroup = { group: string; sinceMs: number };

const COUNTED = ["ready", "leased", "dead", "accepted", "delivered", "cancelled", "expired", "purged", "replaced", "buried"] as const;

export class Topic {
  private readonly stored: string | Buffer;

  constructor(private readonly calls: Calls, private readonly restorer: Restorer, readonly name: string) {
    this.stored = topicArg(name);
  }

  /** Counts messages over all shards, each shard at another instant. */
  async count(): Promise<Numbers> {
    const total: Numbers = { delayed: 0, unreadable: 0, ...(Object.fromEntries(COUNTED.map((what) => [what, 0])) as any) };
    for (const numbers of await this.calls.everywhere((shard) => this.countIn(shard))) {
      for (const what of ["delayed", "unreadable", ...COUNTED] as const) total[what] += numbers[what];
      const dues = [total.nextDueMs, numbers.nextDueMs].filter((due) => due !== undefined);
      if (dues.length > 0) total.nextDueMs = Math.min(...dues);
    }
    return total;
  }

  /** Iterates over messages in one state: shard by shard, by time, ready messages in queue order. */
  async *list(state: "delayed" | "ready" | "leased" | "dead", range: Range = {}): AsyncGenerator<Stored> {
    wordOf("state", state, ["delayed", "ready", "leased", "dead"]);
    for (let shard = 0; shard < (await this.calls.shards()); shard++) {
      for await (const page of this.pages(shard, state, range)) for (const one of page) yield this.restorer.shown(one);
    }
  }

  /** Revives dead letters, with attempts counted from zero. A message in a group needs the group. */
  async replay(ids: readonly string[], options: { delayMs?: number; group?: string } = {}): Promise<Outcome<Words["replay"]>[]> {
    const { delayMs = 0, group } = optionsOf("a replay", options, "delayMs group");
    const place = group === undefined ? undefined : Buffer.from(name("group", group));
    const items = listOf("ids", ids).map((id) => {
      const stored = storedId(id, group);
      return { place: isGenerated(stored) ? stored : (place ?? stored), id, args: [stored] };
    });
    return this.replayItems(items, delayMs);
  }

  /** Revives all dead letters that died in the range, and counts revived and remaining letters. */
  async replayAll(options: Range & { delayMs?: number } = {}): Promise<{ replayed: number; kept: number }> {
    const { delayMs = 0, ...range } = optionsOf("a replay", options, "delayMs from to pastOk");
    spanMs("delayMs", delayMs);
    const total = { replayed: 0, kept: 0 };
    for (let shard = 0; shard < (await this.calls.shards()); shard++) {
      for await (const page of this.pages(shard, "dead", range)) {
        const items = page.map(({ id, group }) => ({ place: shard, id, args: [storedId(id, group)] }));
        const outcomes = await this.replayItems(items, delayMs);
        const replayed = outcomes.filter(({ word }) => word === "ready" || word === "delayed").length;
        total.replayed += replayed;
        total.kept += outcomes.length - replayed;
      }
    }
    return total;
  }

  /** Deletes messages in one state, and counts deleted and unreadable messages. */
  async purge(state: "delayed" | "ready" | "dead", range: Range = {}): Promise<{ purged: number; kept: number }> {
    wordOf("state", state, ["delayed", "ready", "dead"]);
    const [purged, kept] = await this.onEachShard("purge", state, range, MAX_IDS_A_CALL);
    return { purged, kept };
  }

  /**
   * Makes delayed messages due in the range ready now, in each shard the earliest due first, and counts promoted and unreadable
   * messages. Safe to repeat. For one message: `client.reschedule(topic, id, { afterMs: 0 })`.
   */
  async promote(range: Range = {}): Promise<{ promoted: number; kept: number }> {
    const [promoted, kept] = await this.onEachShard("promote", "", range, PROMOTED);
    return { promoted, kept };
  }

  private async onEachShard(verb: "promote" | "purge", word: string, range: Range, most: number): Promise<[number, number]> {
    const times = rangeOf(range);
    let [changed, kept] = [0, 0];
    for (let shard = 0; shard < (await this.calls.shards()); shard++) {
      const some = await inSteps(this.calls, verb, shard, [this.stored, word], times, most);
      changed += some[0];
      kept += some[1];
    }
    return [changed, kept];
  }

  /** Returns the settings that differ from the defaults. */
  async policy(): Promise<Policy> {
    const shards = await this.calls.shards();
    const [, ...fields] = await this.calls.call("describe", 0, [this.name]);
    return policyOf(fields, shards);
  }

  /** Applies a patch, and returns the policy. Safe to repeat. */
  async setPolicy(patch: PolicyPatch): Promise<Policy> {
    await this.calls.everywhere((shard, shards) =>
      this.calls.call("configure", shard, [this.stored, ...settingsOf(patch, shards)]),
    );
    return this.policy();
  }

  /** Stops the messages of one group of the topic from being reserved; messages of other groups pass. Safe to repeat. */
  async pauseGroup(group: string): Promise<void> {
    await this.changePause("pause", group);
  }

  /** Lets a paused group continue, in the order in which its messages became ready. Safe to repeat. */
  async resumeGroup(group: string): Promise<void> {
    await this.changePause("resume", group);
  }

  /** Returns the paused groups, the longest paused first. */
  async pausedGroups(): Promise<PausedGroup[]> {
    const groups: PausedGroup[] = [];
    let page: Buffer[];
    do {
      const { group = "", sinceMs = "" } = groups.at(-1) ?? {};
      page = await this.calls.call("paused_groups", 0, [this.stored, sinceMs, group, MAX_IDS_A_CALL]);
      for (let at = 0; at < page.length; at += 2) groups.push({ group: String(page[at]), sinceMs: Number(page[at + 1]) });
    } while (page.length > 0);
    return groups;
  }

  private async changePause(word: "pause" | "resume", group: string): Promise<void> {
    const args = [this.stored, word, name("group", group)];
    await this.calls.everywhere((shard) => this.calls.call("pause_group", shard, args));
  }

  private replayItems(items: { place: Buffer | number; id: string; args: Buffer[] }[], delayMs: number) {
    const topic = [this.stored, String(spanMs("delayMs", delayMs))];
    return this.calls.each("replay", items.map((item) => ({ ...item, topic })));
  }

  /** Yields pages of one shard. Messages that die during a listing of dead letters are left out. */
  private async *pages(shard: number, state: string, range: Range): AsyncGenerator<Stored[]> {
    let [from, to] = rangeOf(range);
    let mark: Buffer | string = "";
    do {
      const reply = await this.calls.call("list", shard, [this.stored, state, from, to, "asc", mark, MAX_IDS_A_CALL]);
      if (state === "dead") to = Math.min(to, Math.floor(reply[0] / 1000));
      const [, next, after, ...items] = reply;
      [from, mark] = [next, after];
      const page = [];
      for (let at = 0; at < items.length; at += 2) page.push(storedOf(shard, this.name, items[at], items[at + 1]));
      yield page;
    } while (String(from) !== "");
  }

  private async countIn(shard: number): Promise<Numbers> {
    let [hour, delayed, nextDueMs]: [any, number, number | undefined] = [0, 0, undefined];
    let counted: number[] | undefined;
    do {
      const [next, some, due, ...rest] = await this.calls.call("count", shard, [this.stored, hour]);
      hour = next;
      delayed += some;
      counted ??= rest;
      if (String(due) !== "") nextDueMs = Math.min(nextDueMs ?? Infinity, Number(due));
    } while (String(hour) !== "");
    // A shard that does not know the topic counts nothing.
    const numbers = Object.fromEntries(COUNTED.map((what, i) => [what, Math.max(Number(counted![i] ?? 0), 0)]));
    return { delayed, nextDueMs, ...numbers, unreadable: Number(counted![COUNTED.length + 2] ?? 0) } as unknown as Numbers;
  }
}
