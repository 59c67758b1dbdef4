/** Payloads that were stored compressed, restored by `@bokuweb/zstd-wasm` where it is installed. */

import { MAX_PAYLOAD_BYTES } from "./message.js";
import { InvalidMessage } from "./names.js";
import type { Stored } from "./stored.js";

/** Finds a dictionary by its id; empty where there is none. */
type Find = (id: number) => Promise<Buffer>;

/** Restores payloads, and keeps the dictionaries that it needed. */
export class Restorer {
  private readonly dictionaries = new Map<number, Buffer>();
  /** Of the process: initialised again, it would restore nothing. */
  private static zstd?: Promise<typeof import("@bokuweb/zstd-wasm")>;

  constructor(private readonly find: Find) {}

  /** The payload as it was put. */
  async restore(frame: Buffer): Promise<Buffer> {
    const id = dictionaryOf(frame);
    const zstd = await (Restorer.zstd ??= load());
    const known = id > 0 ? await this.dictionary(id) : Buffer.alloc(0);
    const context = zstd.createDCtx();
    try {
      return Buffer.from(zstd.decompressUsingDict(context, frame, known));
    } catch (fault) {
      throw new InvalidMessage(`the payload cannot be restored: ${fault}`);
    } finally {
      zstd.freeDCtx(context);
    }
  }

  /** A stored message with its payload as it was put; the frame itself where it cannot be restored. */
  async shown(stored: Stored): Promise<Stored> {
    if (!stored.compressed) return stored;
    const payload = await this.restore(stored.payload).catch(() => undefined);
    return payload ? { ...stored, payload, compressed: false } : stored;
  }

  private async dictionary(id: number): Promise<Buffer> {
    const found = this.dictionaries.get(id) ?? (await this.find(id));
    this.dictionaries.set(id, found);
    return found;
  }
}

async function load() {
  const zstd = await import("@bokuweb/zstd-wasm");
  await zstd.init();
  return zstd;
}

/** The id of the dictionary that a frame needs, or 0. Refuses a frame of a size that no payload has. */
function dictionaryOf(frame: Buffer): number {
  const head = Buffer.concat([frame.subarray(0, 14), Buffer.alloc(14)]); // so that one cut short can be read
  if (head.readUInt32LE() !== 0xfd2fb528) throw new InvalidMessage("the payload is not a zstd frame");
  const [flags, single] = [head[4]!, (head[4]! >> 5) & 1];
  const [at, ids, sizes] = [6 - single, [0, 1, 2, 4][flags & 3]!, [single, 2, 4, 6][flags >> 6]!];
  const bytes = sizes > 0 ? head.readUIntLE(at + ids, sizes) : 0;
  if (bytes > MAX_PAYLOAD_BYTES) throw new InvalidMessage(`the payload would have ${bytes} bytes`);
  return ids > 0 ? head.readUIntLE(at, ids) : 0;
}
