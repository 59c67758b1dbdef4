/** Prints how late messages of a thousand a second reach the handler of a worker that pumps: late.js URL NAMESPACE COUNT. */

import { Client, Worker } from "../src/index.js";

const [url, namespace, count] = process.argv.slice(2);
if (url !== undefined) await measure(url, namespace!, Number(count)); // else it is run as a test

async function measure(url: string, namespace: string, count: number): Promise<void> {
  const client = new Client(url, { namespace });
  const lateMs: number[] = [];
  let end = (): void => undefined;
  const isOver = new Promise<void>((resolve) => (end = resolve));
  const handle = ({ dueMs }: { dueMs: number }): void => {
    lateMs.push(performance.timeOrigin + performance.now() - dueMs);
    if (lateMs.length === count) end();
  };
  const worker = new Worker(client, "late", handle, { concurrency: 64, pump: true });
  const first = Date.now() + 2_000;
  await client.putMany(Array.from({ length: count }, (_, n) => ({ topic: "late", id: `late-${first + n}`, payload: "x", at: first + n })));
  await isOver;
  await worker.close();
  client.close();
  lateMs.sort((one, other) => one - other);
  const [p50, p99] = [0.5, 0.99].map((part) => lateMs[Math.floor(count * part)]!.toFixed(2));
  console.log(`Node    ${count} messages, p50 ${p50} ms, p99 ${p99} ms`);
}
