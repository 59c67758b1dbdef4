/** Names: of messages, topics, groups and namespaces. */

import { randomBytes } from "node:crypto";
import { inspect } from "node:util";

/** Ids and groups may be any text but control characters and halves of characters. */
const PRINTABLE = /^[^\p{Cc}\p{Cs}]+$/u;
const FORMS: Record<string, RegExp> = {
  topic: /^[A-Za-z0-9._/-]{1,128}$/,
  namespace: /^[A-Za-z0-9_-]{1,32}$/,
  node: /^[A-Za-z0-9_-]{1,32}$/,
  "header name": /^[!-~]{1,255}$/,
  "generated id": /^~[01][0-9a-f]{7}-[0-9a-f]{4}-7[0-9a-f]{3}(-[0-9a-f]{4}){2}[0-9a-f]{8}$/i,
};

/** A message or a name is invalid, or breaks a limit. Nothing was sent. */
export class InvalidMessage extends Error {
  override name = "InvalidMessage";
}

/** Checks a name: an id or a group of at most 128 bytes, or one of those that have a form of their own. */
export function name(what: string, text: string): string {
  const form = FORMS[what] ?? PRINTABLE;
  if (typeof text !== "string") throw new InvalidMessage(`${what === "id" ? "an" : "a"} ${what} is text, not ${inspect(text, { depth: 0 }).slice(0, 40)}`);
  if (!form.test(text) || (form === PRINTABLE && Buffer.byteLength(text) > 128)) {
    throw new InvalidMessage(`${JSON.stringify(text.slice(0, 40))} is no ${what}: ${form.source}`);
  }
  return text;
}

/** A UUIDv7 that carries its shard in the 12 bits behind the version. The time orders ids, nothing else. */
export function generateId(shard: number): string {
  const raw = randomBytes(16);
  raw.writeUIntBE(Date.now() % 2 ** 45, 0, 6);
  raw.writeUInt16BE(0x7000 | shard, 6);
  raw[8] = 0x80 | (raw[8]! & 0x3f);
  return idText(raw);
}

/** The name of a message in keys and calls: its id, of an own one in a group with 0x1F and the group behind it. */
export function storedId(id: string, group: string | undefined): Buffer {
  const raw = idBytes(id);
  if (group === undefined) return raw;
  const suffix = Buffer.from(`\x1f${name("group", group)}`);
  return isGenerated(raw) ? raw : Buffer.concat([raw, suffix]);
}

/** What such a name says. That of a generated id names no group. */
export function idAndGroup(stored: Buffer): { id: string; group?: string } {
  const end = isGenerated(stored) ? -1 : stored.indexOf(0x1f);
  if (end < 0) return { id: idText(stored) };
  return { id: idText(stored.subarray(0, end)), group: stored.subarray(end + 1).toString() };
}

/** The bytes of an id: 16 of a generated one, or those of an own one, whose first ~ is doubled as text. */
export function idBytes(text: string): Buffer {
  if (typeof text !== "string") return Buffer.from(name("id", text));
  if (!/^~(?!~)/.test(text)) return Buffer.from(name("id", text.replace(/^~/, "")));
  return Buffer.from(name("generated id", text).replaceAll(/[~-]/g, ""), "hex");
}

/** The same as text: ~ and a UUID; of an own id the text itself, with one more ~ where it begins with one. */
export function idText(raw: Buffer): string {
  if (!isGenerated(raw)) return raw.toString().replace(/^~/, "~~");
  return `~${raw.toString("hex").replace(/(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-")}`;
}

export const isGenerated = (raw: Buffer): boolean => raw.length === 16 && raw[0]! < 0x20;

/** The shards where something may be: where it belongs, then where it belonged before the deployment grew. */
export function placesOf(place: Buffer | number, counts: readonly number[]): number[] {
  if (typeof place === "number") return [place];
  if (isGenerated(place)) return [place.readUInt16BE(6) & 0xfff];
  return [...new Set(counts.map((count) => crc32(place) % count).reverse())];
}

function crc32(bytes: Buffer): number {
  let crc = -1;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return ~crc >>> 0;
}
