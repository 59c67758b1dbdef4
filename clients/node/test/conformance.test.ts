/** The conformance suite that all clients share (tests/vectors/README.md). */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Redis } from "ioredis";
import { Client, InvalidMessage, MessageId, ScriptError, type Answer, type Delivery, type Put } from "../src/index.js";
import type { Message } from "../src/message.js";
import { startServer, vectors, type Server } from "./server.js";

let server: Server;
let redis: Redis;
before(async () => {
  server = await startServer();
  redis = server.connect();
});
after(async () => {
  redis.disconnect();
  await server.stop();
});

/** One scenario under way: what its steps have bound so far. */
class Run {
  readonly bound = new Map<string, any>();

  constructor(
    readonly client: Client,
    readonly namespace: string,
  ) {}

  /** A value of a step with its variables filled in. */
  known(value: any): any {
    if (Array.isArray(value)) return value.map((item) => this.known(item));
    if (typeof value !== "string" || !value.startsWith("$")) return value;
    const [name, shift] = value.slice(1).split("+") as [string, string?];
    assert.ok(this.bound.has(name), `${name} is not bound`);
    return shift === undefined ? this.bound.get(name) : this.bound.get(name) + Number(shift);
  }

  /** What is expected must be there; a variable takes its first value. */
  compare(expected: any, got: any, place: string): void {
    if (typeof expected === "string" && /^\$\w+$/.test(expected)) {
      if (!this.bound.has(expected.slice(1))) this.bound.set(expected.slice(1), got);
      assert.deepEqual(got, this.bound.get(expected.slice(1)), place);
    } else if (Array.isArray(expected)) {
      assert.equal(got.length, expected.length, `${place}: ${JSON.stringify(got)}`);
      expected.forEach((item, i) => this.compare(item, got[i], `${place}[${i}]`));
    } else if (expected !== null && typeof expected === "object") {
      for (const [key, item] of Object.entries(expected)) this.compare(item, got[key], `${place}: ${key}`);
    } else {
      assert.deepEqual(got, this.known(expected), place);
    }
  }

  message(said: any): Message {
    return {
      topic: said.topic,
      payload: said.payload ?? Buffer.from(said.payload_hex, "hex"),
      id: said.id === undefined ? undefined : MessageId.parse(this.known(said.id)),
      atMs: said.at_ms,
      afterMs: said.after_ms,
      group: said.group,
      headers: said.headers,
      expiresMs: said.expires_ms,
      maxAttempts: said.max_attempts,
      backoff: said.backoff && { kind: said.backoff.kind, delaysMs: said.backoff.delays_ms },
      replace: said.replace,
      firstTriedMs: said.first_tried_ms,
    };
  }

  async step(step: any): Promise<any> {
    const { op, topic, group } = step;
    if (op === "put") return shownPut(await this.client.put(this.message(step.message)));
    if (op === "put_many") {
      return (await this.client.putMany(step.messages.map((said: any) => this.message(said)))).map(shownPut);
    }
    if (op === "cancel") return shown(await this.client.cancel(topic, MessageId.parse(this.known(step.id)), group));
    if (op === "reschedule") {
      const { kind, ms, expected_ms } = step.change;
      const change = { kind, ms, expectedMs: this.known(expected_ms) };
      return shown(await this.client.reschedule(topic, MessageId.parse(this.known(step.id)), change, group));
    }
    if (op === "reserve") {
      const reserved = await this.client.reserve(step.topics, step.most, step.lease_ms, step.shard);
      if (step.waits !== undefined) assert.equal(reserved.waitMs !== undefined, step.waits);
      return reserved.deliveries.map(shownDelivery);
    }
    if (op === "script") {
      return (await this.client.send([{ verb: step.verb, shard: this.known(step.shard), args: step.args }]))[0];
    }
    if (op === "redis") {
      const [command, ...args] = step.args.map((arg: string) => arg.replace("NAMESPACE", this.namespace));
      return this.client.redis.call(command, ...args);
    }
    return (await this.settle(op, step)).map(shown);
  }

  settle(op: string, step: any): Promise<Answer[]> {
    const receipts = this.known(step.receipts);
    if (op === "ack") return this.client.ack(receipts);
    if (op === "extend") return this.client.extend(receipts, step.lease_ms);
    if (op === "bury") return this.client.bury(receipts, step.reason);
    assert.equal(op, "release");
    return this.client.release(receipts, {
      delayMs: step.delay_ms,
      keepAttempt: step.keep_attempt,
      reason: step.reason,
    });
  }

  async carryOut(step: any, place: string): Promise<void> {
    if (step.invalid) return assert.rejects(this.step(step), InvalidMessage, place);
    if (step.error) {
      const expected = (fault: unknown) => fault instanceof ScriptError && fault.code === step.error;
      return assert.rejects(this.step(step), expected, place);
    }
    const got = await this.step(step);
    if (step.op === "script") {
      step.expect.forEach((item: string, i: number) => {
        if (item !== "*") assert.equal(String(got[i]), item, `${place}: ${got}`);
      });
    } else if (step.expect !== undefined) {
      this.compare(step.expect, got, place);
    }
  }
}

function shown(answer: Answer): any {
  return { ...answer, time_ms: answer.timeMs, old_ms: answer.oldMs };
}

function shownPut(put: Put): any {
  return { ...shown(put.answer), id: put.id.toString(), shard: put.shard };
}

function shownDelivery({ receipt, topic, id, leaseEndMs, envelope }: Delivery): any {
  return {
    ...envelope,
    ...{ receipt, topic, id: id.toString(), lease_end_ms: leaseEndMs },
    payload: envelope.payload.toString(),
    payload_hex: envelope.payload.toString("hex"),
    due_ms: envelope.dueMs,
    expires_ms: envelope.expiresMs,
    max_attempts: envelope.maxAttempts,
    backoff: envelope.backoff && { kind: envelope.backoff.kind, delays_ms: envelope.backoff.delaysMs },
  };
}

for (const [number, scenario] of vectors("conformance.json").scenarios.entries()) {
  test(scenario.name, async () => {
    const [namespace, shards] = [`n${number}`, scenario.shards ?? 1];
    const run = new Run(new Client(redis, { namespace, shards }), namespace);
    if (scenario.init !== false) {
      await run.client.send(Array.from({ length: shards }, (_, shard) => ({ verb: "init", shard, args: [shard, shards] })));
    }
    for (const [i, step] of scenario.steps.entries()) await run.carryOut(step, `step ${i + 1} (${step.op})`);
  });
}
