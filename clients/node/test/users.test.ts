/** The users of `delayq acl print`, who may load scripts, but not send EVAL. */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { after, before, test } from "node:test";
import { Redis } from "ioredis";
import { Client, Worker } from "../src/index.js";
import { init, RedisGroup, REPOSITORY, Server } from "./server.js";

const DELAYQ = process.env["DELAYQ_COMMAND"] ?? `${REPOSITORY}/target/debug/delayq`;

/** Creates a user with a password for every role. */
async function makeUsers(redis: Redis, ...args: string[]): Promise<void> {
  const roles = ["producer", "consumer", "worker", "admin"].flatMap((role) => ["--role", role]);
  const printed = execFileSync(DELAYQ, ["acl", "print", ...roles, ...args], { encoding: "utf8" });
  const users = printed.split("\n").filter((line) => line.startsWith("user "));
  assert.equal(users.length, 4);
  for (const user of users) await redis.call("ACL", "SETUSER", ...user.replace(">PASSWORD", ">secret").split(" ").slice(1));
}

let server: Server;
let redis: Redis;
before(async () => {
  server = await Server.start();
  redis = server.connect();
  await init(redis, "dq", 4);
  await makeUsers(redis);
  server.startTimer("dq", 4);
});
after(async () => {
  redis.disconnect();
  await server.stop();
});

const as = (role: string): Client =>
  new Client(new Redis({ path: server.socket, username: `delayq-${role}`, password: "secret", lazyConnect: true }));

/** The calls of an application, each by the user of the role. */
async function useAll(producer: Client, consumer: Client, admin: Client, id: string): Promise<void> {
  const soon = await producer.put({ topic: "orders", id, payload: "x" });
  const many = await producer.putMany(Array.from({ length: 40 }, (_, n) => ({ topic: "many", id: `${id}-${n}`, payload: "x", afterMs: 60_000 })));
  assert.ok(soon.accepted && many.every(({ accepted }) => accepted));
  assert.equal((await producer.reschedule("many", `${id}-1`, { afterMs: 90_000 })).word, "delayed");
  assert.equal((await producer.cancel("many", `${id}-2`)).word, "cancelled");
  const [delivery] = await consumer.reserve(["orders"], { waitMs: 5_000 });
  assert.equal((await delivery!.extend()).word, "extended");
  assert.equal((await delivery!.ack()).word, "delivered");
  await admin.topic("orders").setPolicy({ maxAttempts: 3 });
  assert.ok((await admin.topic("many").purge("delayed")).purged > 0);
}

test("all verbs work for the printed users, also after a SCRIPT FLUSH and a restart", async () => {
  const [producer, consumer, admin] = [as("producer"), as("consumer"), as("admin")] as const;
  await useAll(producer, consumer, admin, "first");
  await redis.call("SCRIPT", "FLUSH");
  await useAll(producer, consumer, admin, "flushed");
  await server.kill();
  await server.restart();
  await redis.ping(); // with its append-only file; users are not in it
  await makeUsers(redis);
  for (const client of [producer, consumer, admin]) {
    while (!(await client.get("orders", "none").then(() => true, () => false))); // its connection is made again
  }
  await useAll(producer, consumer, admin, "restarted");
  for (const client of [producer, consumer, admin]) client.close();
});

test("a worker works as the printed user, also after its scripts are flushed", async () => {
  const [producer, consumer] = [as("producer"), as("consumer")];
  const handed: string[] = [];
  let wake = (): void => undefined;
  const worker = new Worker(consumer, "worked", ({ id }) => {
    handed.push(id);
    wake();
  }, { stopOn: [] });
  for (const id of ["one", "other"]) {
    await producer.put({ topic: "worked", id, payload: "x" });
    while (!handed.includes(id)) await new Promise<void>((resolve) => (wake = resolve));
    await redis.call("SCRIPT", "FLUSH");
  }
  await worker.close();
  assert.deepEqual(handed, ["one", "other"]);
  for (const client of [producer, consumer]) client.close();
});

test("a worker that pumps works as the printed user, and is told what a consumer may not", async () => {
  await init(redis, "pumped", 1);
  const by = (role: string): Client =>
    new Client(new Redis({ path: server.socket, username: `delayq-${role}-pumped`, password: "secret", lazyConnect: true }), { namespace: "pumped" });
  for (const role of ["consumer", "worker"]) {
    const printed = execFileSync(DELAYQ, ["--namespace", "pumped", "acl", "print", "--role", role], { encoding: "utf8" });
    const [, , ...words] = printed.split("\n").find((line) => line.startsWith("user "))!.replace(">PASSWORD", ">secret").split(" ");
    await redis.call("ACL", "SETUSER", `delayq-${role}-pumped`, ...words);
  }
  const producer = new Client(redis, { namespace: "pumped" });
  let fault = (_: unknown): void => undefined;
  const told = new Promise<unknown>((resolve) => (fault = resolve));
  const consumer = by("consumer");
  const refused = new Worker(consumer, "mails", () => undefined, { pump: true, stopOn: [], onError: fault });
  await producer.put({ topic: "orders", id: "order-0", payload: "x", afterMs: 20 });
  assert.match(String(((await told) as Error).cause), /NOPERM|can't run this command/);
  await refused.close();
  const handed = new Set<string>();
  let wake = (): void => undefined;
  const pumping = by("worker");
  const worker = new Worker(pumping, "orders", ({ id }) => {
    handed.add(id);
    wake();
  }, { pump: true, stopOn: [] });
  for (const id of ["order-0", "order-1", "order-2"]) {
    await producer.put({ topic: "orders", id, payload: "x", afterMs: 20 });
    while (!handed.has(id)) await new Promise<void>((resolve) => (wake = resolve));
    await redis.call("SCRIPT", "FLUSH");
  }
  await worker.close();
  for (const one of [consumer, pumping, producer]) one.close();
});

test("calls that wait for a replica work for the printed users, also after a SCRIPT FLUSH", async () => {
  const group = await RedisGroup.start("replica");
  const master = new Redis(group.url);
  await init(master, "dq", 1);
  await makeUsers(master, "--durability", "replica:1");
  const login = { username: "delayq-producer", password: "secret", lazyConnect: true };
  const own = new Redis(group.url, login);
  await new Client(master).topic("orders").setPolicy({ durability: "replica:1" });
  const producer = new Client(own, { timeoutMs: 60_000 });
  for (const id of ["one", "other"]) {
    const put = await producer.putMany(["a", "b"].map((part) => ({ topic: "orders", id: `${id}-${part}`, payload: "x" })));
    assert.ok(put.every(({ accepted }) => accepted));
    await master.call("SCRIPT", "FLUSH");
  }
  producer.close();
  for (const one of [own, master]) one.disconnect();
  await group.stop();
});
