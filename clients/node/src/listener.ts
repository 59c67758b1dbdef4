/** Listening for ready queues that stop being empty. */

import type { Redis } from "ioredis";

/** The shard that is heard next; undefined where none is in time. */
export type Hear = (timeoutMs: number) => Promise<number | undefined>;

/** Listens to shards, by a connection of its own. Each is heard at first: it may have spoken before. */
export async function listen(connection: Redis, namespace: string, shards: number): Promise<Hear> {
  const heard = Array.from({ length: shards }, (_, shard) => shard);
  let wake = (): void => undefined;
  connection.on("smessage", (channel: string) => {
    heard.push(Number(/:(\d+)}:ready$/.exec(channel)![1]));
    wake();
  });
  await connection.ssubscribe(...heard.map((shard) => `{${namespace}:${shard}}:ready`));
  return async (timeoutMs) => {
    if (heard.length === 0) {
      let timer: NodeJS.Timeout | undefined;
      await new Promise<void>((resolve) => {
        wake = resolve;
        timer = setTimeout(resolve, timeoutMs);
      });
      clearTimeout(timer);
    }
    return heard.shift();
  };
}
