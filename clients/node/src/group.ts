/** Groups: messages listed, moved and cancelled together, such as the messages of a user. */

import { randomUUID } from "node:crypto";
import { differenceMs, optionsOf, rangeOf } from "./arguments.js";
import type { Calls } from "./calls.js";
import { InvalidMessage, name, topicArg, topicText } from "./names.js";
import type { Ordering } from "./ordering.js";
import type { Restorer } from "./payload.js";
import { MAX_IDS_A_CALL } from "./protocol.js";
import { inSteps, PROMOTED } from "./steps.js";
import { storedOf, type Stored } from "./stored.js";
import type { Range } from "./topic.js";

/** Counts of messages: cancelled; leased (not retried after this attempt); failed (unreadable). */
export type GroupCancelled = { cancelled: number; leased: number; failed: number };

/** Counts of messages: moved; passed over (leased, or expired before the new due time). */
export type GroupShifted = { moved: number; passedOver: number };

/** Another shift of the same group is in progress. Nothing was moved. */
export class GroupBusy extends Error {
  override name = "GroupBusy";
}

/** The messages of a group, of all topics or of one. */
export class Group {
  private readonly only: Buffer;

  constructor(
    private readonly calls: Calls,
    private readonly writes: Ordering,
    private readonly restorer: Restorer,
    readonly name: string,
    readonly topic?: string,
  ) {
    this.only = Buffer.from(topic === undefined ? "" : topicArg(topic));
  }

  /** Cancels all of these messages, including earlier puts in flight. Safe to repeat. */
  async cancel(): Promise<GroupCancelled> {
    await this.writes.allEnded();
    const total = { cancelled: 0, leased: 0, failed: 0 };
    for await (const shard of this.calls.places(Buffer.from(this.name))) {
      let mark: [string, Buffer | string] = ["0", ""];
      do {
        const reply = await this.calls.call("cancel_group", shard, [this.name, this.only, ...mark, MAX_IDS_A_CALL]);
        mark = [String(reply[0]), reply[1]];
        total.cancelled += reply[2];
        total.leased += reply[3];
        total.failed += reply[4];
      } while (mark[0] !== "");
    }
    return total;
  }

  /**
   * Moves the due times of all pending messages by the same difference, each message once. A repeat with the same `token`
   * resumes an interrupted shift.
   */
  async shift(byMs: number, options: { token?: string } = {}): Promise<GroupShifted> {
    const { token = randomUUID() } = optionsOf("a shift", options, "token");
    name("token", token);
    if (differenceMs("byMs", byMs) === 0) throw new InvalidMessage("byMs is 0: a shift moves by a millisecond at least");
    await this.writes.allEnded();
    const total = { moved: 0, passedOver: 0 };
    for await (const shard of this.calls.places(Buffer.from(this.name))) {
      for (let word = "more"; word === "more"; ) {
        const reply = await this.calls.call("shift_group", shard, [this.name, this.only, token, byMs, MAX_IDS_A_CALL]);
        word = String(reply[0]);
        if (word === "busy") throw new GroupBusy(`another shift of ${this.name} is under way`);
        total.moved += reply[1];
        total.passedOver += reply[2];
      }
    }
    return total;
  }

  /**
   * Makes delayed messages due in the range ready now, the earliest due first, and counts promoted and unreadable messages. Safe
   * to repeat.
   */
  async promote(range: Range = {}): Promise<{ promoted: number; kept: number }> {
    const times = rangeOf(range);
    await this.writes.allEnded();
    const total = { promoted: 0, kept: 0 };
    for await (const shard of this.calls.places(Buffer.from(this.name))) {
      const some = await inSteps(this.calls, "promote", shard, [this.only, this.name], times, PROMOTED);
      total.promoted += some[0];
      total.kept += some[1];
    }
    return total;
  }

  /** Iterates over pending messages, by due time unless the deployment has grown. */
  async *list(): AsyncGenerator<Stored> {
    for await (const shard of this.calls.places(Buffer.from(this.name))) {
      let mark: [string, Buffer | string] = ["0", ""];
      do {
        const [, , due, name, ...items] = await this.calls.call("list_group", shard, [this.name, ...mark, MAX_IDS_A_CALL]);
        mark = [String(due), name];
        for (let at = 0; at < items.length; at += 3) {
          const [topic, raw, envelope] = items.slice(at, at + 3);
          if (this.only.length > 0 && !this.only.equals(topic)) continue;
          yield this.restorer.shown(storedOf(shard, topicText(topic), raw, envelope));
        }
      } while (mark[0] !== "");
    }
  }
}
