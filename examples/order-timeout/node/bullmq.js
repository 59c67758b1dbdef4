// Orders that are not paid in time, with BullMQ: `node bullmq.js worker`, then `node bullmq.js shop`.
import { Queue, Worker } from "bullmq";
import { Redis } from "ioredis";

const connection = new Redis(process.env.REDIS_URL, { maxRetriesPerRequest: null });
const queue = new Queue("timeouts", { connection });

const place = (order, placed) =>
  queue.add("timeout", { placed }, { jobId: order, delay: 2_000, attempts: 16, removeOnComplete: true });
const pay = (order) => queue.remove(order);
const extend = async (order) => (await queue.getJob(order)).changeDelay(4_000);

if (process.argv[2] === "worker") {
  new Worker("timeouts", async (job) => {
    console.log(`${job.id} was not paid within ${Date.now() - job.data.placed} ms`);
  }, { connection, concurrency: 10 });
} else {
  const now = Date.now();
  for (const order of ["order-1", "order-2", "order-3", "order-1"]) console.log(order, (await place(order, now)).id);
  console.log("order-2 paid:", await pay("order-2"));
  await extend("order-3");
  await queue.close();
  connection.disconnect();
}
