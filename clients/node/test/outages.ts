/** The program that goes through outages (tests/src/bin/client-outages.rs): `outages.js URL NAME PAUSE_MS`. */

import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { Client, connect, Worker, type Delivery } from "../src/index.js";

const [url, name, pauseMs] = process.argv.slice(2);
if (url !== undefined) await run(url, name!, Number(pauseMs)); // else it is run as a test

async function run(url: string, name: string, pauseMs: number): Promise<void> {
  const redises = [1, 2, 3].map(() => connect(url));
  for (const redis of redises) redis.on("error", () => undefined);
  const [busy, source, idle] = redises.map((redis) => new Client(redis, { timeoutMs: 1_000 })) as [Client, Client, Client];
  const options = { concurrency: 4, leaseMs: 2_000, stopOn: [] };
  const workers = [new Worker(busy, name, handle, options), new Worker(idle, `${name}-idle`, handle, options)];
  let isOver = false;
  const load = async (): Promise<void> => {
    for (let n = 0; !isOver; n++) {
      await put(busy, name, `${name}-load-${n}`);
      await sleep(pauseMs);
    }
  };
  const loading = load();
  for await (const line of createInterface(process.stdin)) {
    if (line !== "stop") {
      await put(source, `${name}-idle`, line);
      continue;
    }
    isOver = true;
    await loading;
    console.log("stopped");
  }
  isOver = true;
  for (const worker of workers) await worker.close();
  for (const client of [busy, source, idle]) client.close();
  for (const redis of redises) redis.disconnect();
}

async function put(client: Client, topic: string, id: string): Promise<void> {
  for (;;) {
    try {
      const answer = await client.put({ topic, id, payload: id });
      if (answer.accepted) return console.log(`put ${id} ${Date.now()}`);
      console.error(id, answer);
    } catch (fault) {
      console.error(`${id}: ${fault}`);
    }
    await sleep(50);
  }
}

async function handle({ id, delivery, readyUs, text }: Delivery): Promise<void> {
  console.log(`took ${id} ${delivery} ${Math.floor(readyUs / 1000)} ${text}`);
  await sleep(30);
}
