// Thousands a second: `node measure.js delayq 20000`, `node measure.js bullmq 20000`. 64 callers put timeouts an hour
// ahead, one each call; then a worker with 64 handlers works on as many that are due. `node measure.js delayq late`: how long
// after their due times a waiting worker gets 5,000 timeouts, due a millisecond apart.
import { Queue, Worker as BullWorker } from "bullmq";
import { Client, Worker } from "delayq";
import { Redis } from "ioredis";

const [, , library, text] = process.argv;
const late = text === "late";
const count = late ? 5000 : Number(text);
const redis = new Redis(process.env.REDIS_URL, { maxRetriesPerRequest: null });

function delayq() {
  const client = new Client(redis);
  return {
    put: (n, afterMs) => client.put({ topic: "timeouts", id: `order-${afterMs > 0}-${n}`, payload: "{}", afterMs }),
    work: (handler) => new Worker(client, "timeouts", (delivery) => handler(delivery.dueMs), { concurrency: 64, pump: true, stopOn: [] }),
  };
}

function bullmq() {
  const queue = new Queue("timeouts", { connection: redis });
  return {
    put: (n, delay) => queue.add("timeout", {}, { jobId: `order-${delay > 0}-${n}`, delay, removeOnComplete: true }),
    work: (handler) => new BullWorker("timeouts", (job) => handler(job.timestamp + job.opts.delay), { connection: redis, concurrency: 64 }),
  };
}

const { put, work } = library === "delayq" ? delayq() : bullmq();

async function putAll(delayOf) {
  let next = 0;
  const caller = async () => { while (next < count) { const n = next++; await put(n, delayOf(n)); } };
  await Promise.all(Array.from({ length: 64 }, caller));
}

const now = () => performance.timeOrigin + performance.now();
const rate = (began) => Math.round(count / (performance.now() - began) * 1000);

async function measureRates() {
  let began = performance.now();
  await putAll(() => 3_600_000);
  console.log(`${library}: put ${rate(began)}/s`);
  await putAll(() => 0);
  began = performance.now();
  let handled = 0;
  await new Promise((done) => work(async () => { if (++handled === count) done(); }));
  console.log(`${library}: work ${rate(began)}/s`);
}

async function measureLateness() {
  const first = Math.ceil(now()) + 5000;
  await putAll((n) => first + n - Date.now());
  const waits = [];
  await new Promise((done) => work(async (due) => { if (waits.push(now() - due) === count) done(); }));
  waits.sort((a, b) => a - b);
  const at = (part) => waits[Math.floor(part * (count - 1))].toFixed(2);
  console.log(`${library}: due -> handler, p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, earliest ${at(0)} ms`);
}

await (late ? measureLateness() : measureRates());
process.exit();
