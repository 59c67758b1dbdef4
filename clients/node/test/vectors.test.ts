/** The vectors that all clients share: bytes and what they mean. */

import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { test } from "node:test";
import { decode, encode, EnvelopeError, InvalidMessage, MessageId, type Backoff, type Envelope } from "../src/index.js";
import { namespaceName, printable, shardOfName, topicName } from "../src/ids.js";
import { contentHash, envelopeOf } from "../src/message.js";
import { assemble } from "../src/scripts.js";
import { vectors } from "./server.js";

function backoffOf(said: any): Backoff | undefined {
  return said ? { kind: said.kind, delaysMs: said.delays_ms } : undefined;
}

function envelopeSaid(said: any): Envelope {
  return {
    ...{ state: said.state, gen: said.gen, dueMs: said.due_ms, atMs: said.at_ms, delivery: said.delivery },
    ...{ attempt: said.attempt, maxAttempts: said.max_attempts, doomed: said.doomed, zstd: said.zstd },
    hash: said.hash === null ? undefined : Buffer.from(said.hash, "hex"),
    expiresMs: said.expires_ms ?? undefined,
    backoff: backoffOf(said.backoff),
    group: said.group ?? undefined,
    headers: said.headers,
    payload: Buffer.from(said.payload, "hex"),
    reason: said.reason ?? undefined,
  };
}

for (const { name, hex, envelope } of vectors("envelope.json").valid) {
  test(`an envelope is read and written as it is stored: ${name}`, () => {
    assert.deepEqual(decode(Buffer.from(hex, "hex")), envelopeSaid(envelope));
    assert.equal(encode(envelopeSaid(envelope)).toString("hex"), hex);
  });
}

for (const { name, hex, error } of vectors("envelope.json").refused) {
  test(`what is no envelope is refused by name: ${name}`, () => {
    const expected = (fault: unknown) => fault instanceof EnvelopeError && fault.newer === (error === "newer");
    assert.throws(() => decode(Buffer.from(hex, "hex")), expected);
  });
}

for (const { name, message: said, hash, envelope } of vectors("put.json").puts) {
  test(`a put sends what all clients send: ${name}`, () => {
    const id = MessageId.parse(said.id);
    const message = {
      topic: said.topic,
      payload: Buffer.from(said.payload, "hex"),
      group: said.group ?? undefined,
      headers: said.headers,
      expiresMs: said.expires_ms ?? undefined,
      maxAttempts: said.max_attempts,
      backoff: backoffOf(said.backoff),
    };
    if (hash !== null) assert.equal(contentHash(message).toString("hex"), hash);
    assert.equal(envelopeOf(message, id).toString("hex"), envelope);
  });
}

test("names fall into the same shards everywhere", () => {
  for (const { name, shards } of vectors("names.json").crc32) {
    for (const [count, shard] of Object.entries(shards)) assert.equal(shardOfName(name, Number(count)), shard, name);
  }
});

test("ids have the same forms everywhere", () => {
  for (const { text, hex, shard } of vectors("names.json").ids) {
    const id = MessageId.parse(text);
    assert.deepEqual([id.raw.toString("hex"), id.toString(), id.generated], [hex, text, shard !== null]);
    if (shard !== null) assert.equal(id.shard(undefined, 4096), shard);
  }
});

test("a generated id carries its shard", () => {
  for (const shard of [0, 1, 255, 4095]) {
    const id = MessageId.generate(shard, 1763697600123);
    assert.equal(id.shard(undefined, 4096), shard);
    assert.equal(MessageId.parse(id.toString()).toString(), id.toString());
    assert.ok(id.generated && id.toString().startsWith("~019aa"));
  }
});

test("names that are none are refused", () => {
  const checks: Record<string, (text: string) => unknown> = {
    id: MessageId.parse,
    group: (text) => printable("group", text),
    topic: topicName,
    namespace: namespaceName,
  };
  for (const [what, names] of Object.entries<string[]>(vectors("names.json").refused)) {
    for (const name of names) assert.throws(() => checks[what]!(name), InvalidMessage, `${what} ${name}`);
  }
  assert.throws(() => MessageId.own("\ud800"), InvalidMessage);
});

test("a script is put together as everywhere", () => {
  const { verb, files, source, sha1 } = vectors("assembly.json");
  const folder = mkdtempSync(`${tmpdir()}/delayq-lua-`);
  mkdirSync(`${folder}/lib`);
  for (const [name, text] of Object.entries<string>(files)) writeFileSync(`${folder}/${name}.lua`, text);
  assert.deepEqual(assemble(verb, folder), { source, sha: sha1 });
  rmSync(folder, { recursive: true });
});
