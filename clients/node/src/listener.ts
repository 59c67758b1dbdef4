/** Listening for ready queues that stop being empty, on a connection of its own. */

import type { Redis } from "ioredis";

export class Listener {
  readonly listening: Promise<unknown>;
  private readonly heard: number[] = [];
  private wake = (): void => undefined;

  /** Begins to listen, with this connection alone. What is said before `listening` is not heard. */
  constructor(
    private readonly connection: Redis,
    channels: string[],
  ) {
    connection.on("smessage", (channel: string) => {
      this.heard.push(Number(/:(\d+)}:ready$/.exec(channel)![1]));
      this.wake();
    });
    this.listening = connection.ssubscribe(...channels);
  }

  /** The shard that is heard next; undefined where none is in time. */
  async next(timeoutMs: number): Promise<number | undefined> {
    if (this.heard.length === 0) {
      let timer: NodeJS.Timeout | undefined;
      await new Promise<void>((resolve) => {
        this.wake = resolve;
        timer = setTimeout(resolve, timeoutMs);
      });
      clearTimeout(timer);
    }
    return this.heard.shift();
  }

  stop(): void {
    this.connection.disconnect();
  }
}
