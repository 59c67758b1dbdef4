/** Payloads that were stored compressed, restored by `@bokuweb/zstd-wasm` where it is installed. */

import { MAX_PAYLOAD_BYTES } from "./message.js";
import { InvalidMessage } from "./names.js";

/** The id of the dictionary that a frame needs, or 0. Refuses a frame of a size that no payload has. */
function dictionaryOf(frame: Buffer): number {
  const head = Buffer.concat([frame.subarray(0, 14), Buffer.alloc(14)]); // so that one cut short can be read
  if (head.readUInt32LE() !== 0xfd2fb528) throw new InvalidMessage("the payload is no zstd frame");
  const [flags, single] = [head[4]!, (head[4]! >> 5) & 1];
  const [at, ids, sizes] = [6 - single, [0, 1, 2, 4][flags & 3]!, [single, 2, 4, 6][flags >> 6]!];
  const told = sizes > 0 ? head.readUIntLE(at + ids, sizes) : 0;
  if (told > MAX_PAYLOAD_BYTES) throw new InvalidMessage(`the payload would have ${told} bytes`);
  return ids > 0 ? head.readUIntLE(at, ids) : 0;
}

let ready: Promise<void> | undefined;

/** The payload as it was put. */
export async function restore(frame: Buffer, dictionary: (id: number) => Promise<Buffer>): Promise<Buffer> {
  const id = dictionaryOf(frame);
  const zstd = await import("@bokuweb/zstd-wasm");
  await (ready ??= zstd.init());
  const known = id > 0 ? await dictionary(id) : Buffer.alloc(0);
  const context = zstd.createDCtx();
  try {
    return Buffer.from(zstd.decompressUsingDict(context, frame, known));
  } catch (fault) {
    throw new InvalidMessage(`the payload cannot be restored: ${fault}`);
  } finally {
    zstd.freeDCtx(context);
  }
}
