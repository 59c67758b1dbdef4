/** The order of writes of one message: a cancel that is called after a put finds what that put has stored. */

/** Writes that are under way, by the messages that they are of. */
export class Ordering {
  private readonly last = new Map<string, Promise<void>>();

  /** Begins once all that was begun before for the same messages has ended. */
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

/** What a write is ordered by. */
export const orderOf = (topic: string, id: string): string => `${topic}\n${id}`;
