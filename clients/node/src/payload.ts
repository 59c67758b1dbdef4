/** Compressed payloads, decompressed with `@bokuweb/zstd-wasm` if installed. */

import { InvalidMessage } from "./names.js";
import { MAX_PAYLOAD_BYTES } from "./protocol.js";
import type { Stored } from "./stored.js";

/** Finds a dictionary by id; empty if unknown. */
type Find = (id: number) => Promise<Buffer>;

/** Decompresses payloads and caches dictionaries. */
export class Restorer {
  private readonly dictionaries = new Map<number, Buffer>();
  /** Shared by the process: a second initialisation breaks the module. */
  private static zstd?: Promise<typeof import("@bokuweb/zstd-wasm")>;

  constructor(private readonly find: Find) {}

  /** Decompresses a payload. */
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

  /** Decompresses the payload for display; on failure, the frame remains. */
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

/** Returns the id of the dictionary of a frame, or 0. Refuses frames larger than any payload. */
function dictionaryOf(frame: Buffer): number {
  const head = Buffer.concat([frame.subarray(0, 14), Buffer.alloc(14)]); // so that one cut short can be read
  if (head.readUInt32LE() !== 0xfd2fb528) throw new InvalidMessage("the payload is not a zstd frame");
  const [flags, single] = [head[4]!, (head[4]! >> 5) & 1];
  const [at, ids, sizes] = [6 - single, [0, 1, 2, 4][flags & 3]!, [single, 2, 4, 6][flags >> 6]!];
  const bytes = sizes > 0 ? head.readUIntLE(at + ids, sizes) : 0;
  if (bytes > MAX_PAYLOAD_BYTES) throw new InvalidMessage(`the payload would have ${bytes} bytes`);
  return ids > 0 ? head.readUIntLE(at, ids) : 0;
}
