/** Names of messages, topics, groups and namespaces. */

import { isUtf8 } from "node:buffer";
import { randomBytes } from "node:crypto";
import { inspect } from "node:util";
import { GENERATED_ID, NAMES } from "./protocol.js";

/** An invalid message or name. Nothing was sent. */
export class InvalidMessage extends Error {
  override name = "InvalidMessage";
}

/** Checks a name against the form of the kind. */
export function name(what: keyof typeof NAMES, text: string): string {
  const [form, most] = NAMES[what];
  if (typeof text !== "string") throw new InvalidMessage(`${what === "id" ? "an" : "a"} ${what} is text, not ${inspect(text, { depth: 0 }).slice(0, 40)}`);
  if (!form.test(text) || Buffer.byteLength(text) > most) {
    throw new InvalidMessage(`${JSON.stringify(text.slice(0, 40))} is not a valid ${what}: 1 to ${most} bytes of ${form.source}`);
  }
  return text;
}

/** Returns a UUIDv7 with the shard in the 12 bits after the version. The time only orders ids. */
export function generateId(shard: number): string {
  return idText(generateBytes(shard));
}

/** Returns the bytes of a generated id. */
export function generateBytes(shard: number): Buffer {
  const raw = randomBytes(16);
  raw.writeUIntBE(Date.now() % 2 ** 45, 0, 6);
  raw.writeUInt16BE(0x7000 | shard, 6);
  raw[8] = 0x80 | (raw[8]! & 0x3f);
  return raw;
}

/** Returns the name of a message in keys and calls: the id; for an own id in a group, followed by 0x1F and the group. */
export function storedId(id: string, group: string | undefined): Buffer {
  return inGroup(idBytes(id), group);
}

/** Returns the stored name of an id in a group. */
export function inGroup(raw: Buffer, group: string | undefined): Buffer {
  if (group === undefined) return raw;
  const suffix = Buffer.from(`\x1f${name("group", group)}`);
  return isOwn(raw) ? Buffer.concat([raw, suffix]) : raw;
}

/** Returns id and group of a stored name. A generated id and a name outside the rules have no group. */
export function idAndGroup(stored: Buffer): { id: string; group?: string } {
  const end = isGenerated(stored) ? -1 : stored.indexOf(0x1f);
  const [raw, group] = [stored.subarray(0, Math.max(end, 0)), stored.subarray(end + 1)];
  return end > 0 && isOwn(raw) && isOwn(group) ? { id: idText(raw), group: group.toString() } : { id: idText(stored) };
}

/**
 * Returns the bytes of an id: 16 for a generated id, the text of an own id (a leading ~ is doubled in `text`), or the bytes of
 * an ~odd- name.
 */
export function idBytes(text: string): Buffer {
  if (typeof text !== "string") return Buffer.from(name("id", text));
  if (text.startsWith(ODD)) return oddBytes("id", text);
  if (!/^~(?!~)/.test(text)) return Buffer.from(name("id", text.replace(/^~/, "")));
  if (GENERATED_ID.test(text)) return Buffer.from(text.replaceAll(/[~-]/g, ""), "hex");
  throw new InvalidMessage(`${JSON.stringify(text.slice(0, 40))} is not a valid id: ~ is of generated ids, ${GENERATED_ID.source}; write ~~`);
}

/** Returns the bytes of an id that a put may create. */
export function newId(text: string): Buffer {
  const raw = idBytes(text);
  if (!text.startsWith(ODD) || isGenerated(raw) || isOwn(raw)) return raw;
  throw new InvalidMessage(`id ${JSON.stringify(text.slice(0, 40))} is outside the rules: it can be cancelled, not put`);
}

/** Returns the text of an id: the inverse of `idBytes`. */
export function idText(raw: Buffer): string {
  if (isGenerated(raw)) return `~${raw.toString("hex").replace(/(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-")}`;
  const own = ownText(raw);
  return own === undefined ? oddText(raw) : own.startsWith("~") ? `~${own}` : own;
}

/** Encodes a topic for a call: the text, or the bytes of an ~odd- name. */
export function topicArg(topic: string): string | Buffer {
  return typeof topic === "string" && topic.startsWith(ODD) ? oddBytes("topic", topic) : name("topic", topic);
}

/** Returns the text of a stored topic, valid or not. */
export function topicText(raw: Buffer): string {
  const text = raw.toString("latin1");
  return raw.length <= NAMES.topic[1] && NAMES.topic[0].test(text) ? text : oddText(raw);
}

/** Prefix of the text of a name outside the rules, stored by another program. */
const ODD = "~odd-";

function oddText(raw: Buffer): string {
  const escaped = (byte: string): string => `%${byte.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}`;
  return ODD + raw.toString("latin1").replaceAll(/[^A-Za-z0-9._/-]/g, escaped);
}

function oddBytes(what: string, text: string): Buffer {
  if (!/^~odd-(?:[^%\p{Cs}]|%[0-9A-Fa-f]{2})*$/su.test(text)) {
    throw new InvalidMessage(`${JSON.stringify(text.slice(0, 40))} is not an ~odd- ${what}: write each % as %25`);
  }
  const parts = text.slice(ODD.length).matchAll(/%(..)|[^%]+/gs);
  return Buffer.concat([...parts].map(([part, hex]) => (hex === undefined ? Buffer.from(part) : Buffer.from(hex, "hex"))));
}

/** Returns the text of a valid own id or group. */
function ownText(raw: Buffer): string | undefined {
  if (isGenerated(raw) || raw.length > NAMES.id[1] || !isUtf8(raw)) return undefined;
  const text = raw.toString();
  return NAMES.id[0].test(text) ? text : undefined;
}

const isOwn = (raw: Buffer): boolean => ownText(raw) !== undefined;

export const isGenerated = (raw: Buffer): boolean => raw.length === 16 && raw[0]! < 0x20;

/** Returns the shards of an id or group: the present shard first, then the shards of earlier layouts. */
export function placesOf(place: Buffer | number, counts: readonly number[]): number[] {
  if (typeof place === "number") return [place];
  if (isGenerated(place)) return [place.readUInt16BE(6) & 0xfff];
  const crc = crc32(place);
  if (counts.length === 1) return [crc % counts[0]!];
  return [...new Set(counts.map((count) => crc % count).reverse())];
}

const CRCS = Int32Array.from({ length: 256 }, (_, byte) => {
  for (let bit = 0; bit < 8; bit++) byte = (byte >>> 1) ^ (byte & 1 ? 0xedb88320 : 0);
  return byte;
});

function crc32(bytes: Buffer): number {
  let crc = -1;
  for (const byte of bytes) crc = (crc >>> 8) ^ CRCS[(crc ^ byte) & 255]!;
  return ~crc >>> 0;
}
