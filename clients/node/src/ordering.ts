/** Orders the writes of one message: a cancel called after a put finds the stored message. */

/** Writes in flight, by message. */
export class Ordering {
  private readonly last = new Map<string, Promise<void>>();

  /** Runs a write after all earlier writes of the same messages have ended. */
  after<T>(messages: readonly string[], work: () => Promise<T>): Promise<T> {
    const before = messages.flatMap((one) => this.last.get(one) ?? []);
    const result = before.length > 0 ? Promise.all(before).then(work) : work();
    const ended: Promise<void> = result.then(() => this.forget(messages, ended), () => this.forget(messages, ended));
    for (const one of messages) this.last.set(one, ended);
    return result;
  }

  private forget(messages: readonly string[], ended: Promise<void>): void {
    for (const one of messages) if (this.last.get(one) === ended) this.last.delete(one);
  }
}

/** Returns the key that orders writes of one message. */
export const orderOf = (topic: string, id: string): string => `${topic}\n${id}`;
