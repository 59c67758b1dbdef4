/** Listening for ready queues that stop being empty. */

import type { Redis } from "ioredis";

/** The shard that is heard next; undefined where none is in time. */
export type Hear = (timeoutMs: number) => Promise<number | undefined>;

/** Begins to listen, by a connection that does nothing else. */
export async function listen(connection: Redis, channels: string[]): Promise<Hear> {
  const heard: number[] = [];
  let wake = (): void => undefined;
  connection.on("smessage", (channel: string) => {
    heard.push(Number(/:(\d+)}:ready$/.exec(channel)![1]));
    wake();
  });
  await connection.ssubscribe(...channels);
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
