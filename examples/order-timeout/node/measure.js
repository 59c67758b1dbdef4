// Thousands a second: `node measure.js delayq 20000`, `grouped` (delayq, with a thousand groups) or `bullmq`. 64 callers put
// timeouts an hour ahead, one each call; then a worker with 64 handlers works on as many that are due.
import { Queue, Worker as BullWorker } from "bullmq";
import { Client, Worker } from "delayq";
import { Redis } from "ioredis";

const [, , library, text] = process.argv;
const count = Number(text);
const redis = new Redis(process.env.REDIS_URL, { maxRetriesPerRequest: null });

function delayq(groupOf) {
  const client = new Client(redis);
  return {
    put: (n, afterMs) => client.put({ topic: "timeouts", id: `order-${afterMs}-${n}`, group: groupOf(n), payload: "{}", afterMs }),
    work: (handler) => new Worker(client, "timeouts", handler, { concurrency: 64, pump: true, stopOn: [] }),
  };
}

function bullmq() {
  const queue = new Queue("timeouts", { connection: redis });
  return {
    put: (n, delay) => queue.add("timeout", {}, { jobId: `order-${delay}-${n}`, delay, removeOnComplete: true }),
    work: (handler) => new BullWorker("timeouts", handler, { connection: redis, concurrency: 64 }),
  };
}

const libraries = { delayq: () => delayq(() => undefined), grouped: () => delayq((n) => `user-${n % 1000}`), bullmq };
const { put, work } = libraries[library]();

async function putAll(afterMs) {
  let next = 0;
  const caller = async () => { while (next < count) await put(next++, afterMs); };
  await Promise.all(Array.from({ length: 64 }, caller));
}

const rate = (began) => Math.round(count / (performance.now() - began) * 1000);
let began = performance.now();
await putAll(3_600_000);
console.log(`${library}: put ${rate(began)}/s`);
await putAll(0);
began = performance.now();
let handled = 0;
await new Promise((done) => work(async () => { if (++handled === count) done(); }));
console.log(`${library}: work ${rate(began)}/s`);
process.exit();
