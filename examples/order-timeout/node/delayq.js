// Orders that are not paid in time, with delayq: `node delayq.js worker`, then `node delayq.js shop`.
import { Redis } from "ioredis";
import { Client, Worker } from "delayq";

const redis = new Redis(process.env.REDIS_URL);
const client = new Client(redis);

const place = (order, placed) =>
  client.put({ topic: "timeouts", id: order, payload: JSON.stringify({ placed }), afterMs: 2_000 });
const pay = (order) => client.cancel("timeouts", order);
const extend = (order) => client.reschedule("timeouts", order, { afterMs: 4_000 });

if (process.argv[2] === "worker") {
  new Worker(client, "timeouts", async (delivery) => {
    const { placed } = delivery.json();
    console.log(`${delivery.id} was not paid within ${Date.now() - placed} ms`);
  }, { pump: true });
} else {
  const now = Date.now();
  for (const order of ["order-1", "order-2", "order-3", "order-1"]) console.log(order, (await place(order, now)).word);
  console.log("order-2 paid:", (await pay("order-2")).word);
  console.log("order-3 extended:", (await extend("order-3")).word);
  await client.close();
  redis.disconnect();
}
