/** The test vectors shared by all clients: bytes and their meaning. */

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { readAddress } from "../src/address.js";
import { connect, InvalidMessage } from "../src/index.js";
import { readEnvelope } from "../src/stored.js";
import { contentHash, envelopeOf } from "../src/message.js";
import { generateId, idAndGroup, idBytes, idText, isGenerated, name, newId, placesOf, storedId, topicArg, topicText } from "../src/names.js";
import { keyOf, META, NEVER, READY, WAKE, WORKERS } from "../src/protocol.js";
import { script } from "../src/scripts.js";
import { LOCK_MS, POLL_MS, Shard } from "../src/schedule.js";
import { vectors } from "./server.js";

const backoffOf = (said: any) => (said ? { kind: said.kind, delaysMs: said.delays_ms } : undefined);

for (const { name: what, hex, envelope } of vectors("envelope.json").valid) {
  test(`an envelope is read as it is stored: ${what}`, () => {
    const read = readEnvelope(Buffer.from(hex, "hex"));
    assert.deepEqual({ ...read, payload: read.payload.toString("hex") }, {
      state: envelope.state,
      dueMs: envelope.due_ms,
      atMs: envelope.at_ms,
      attempt: envelope.attempt,
      delivery: envelope.delivery,
      maxAttempts: envelope.max_attempts,
      doomed: envelope.doomed,
      blocks: envelope.blocks,
      held: envelope.held,
      hasSuccessor: envelope.has_successor,
      paused: envelope.paused,
      blocked: envelope.blocked,
      contentHash: envelope.hash ?? undefined,
      expiresMs: envelope.expires_ms ?? undefined,
      backoff: backoffOf(envelope.backoff),
      group: envelope.group ?? undefined,
      headers: envelope.headers,
      payload: envelope.payload,
      compressed: envelope.zstd,
      reason: envelope.reason ?? undefined,
    });
  });
}

for (const { name: what, hex, error } of vectors("envelope.json").refused) {
  if (/^a (.*back-off|list of no back-offs)/.test(what)) continue; // counts as none: it keeps no message from a worker
  test(`what is no envelope is refused by name: ${what}`, () => {
    const expected = (fault: Error) => fault.message.includes("newer") === (error === "newer");
    assert.throws(() => readEnvelope(Buffer.from(hex, "hex")), expected);
  });
}

for (const { name: what, message: said, hash, envelope } of vectors("put.json").puts) {
  test(`a put sends what all clients send: ${what}`, () => {
    const message = {
      topic: said.topic,
      payload: Buffer.from(said.payload, "hex"),
      group: said.group ?? undefined,
      headers: said.headers,
      expires: said.expires_ms ?? undefined,
      maxAttempts: said.max_attempts,
      backoff: backoffOf(said.backoff),
    };
    if (hash !== null) assert.equal(contentHash(message).toString("hex"), hash);
    assert.equal(envelopeOf(message, !isGenerated(idBytes(said.id)), 1000).toString("hex"), envelope);
  });
}

test("names fall into the same shards everywhere", () => {
  for (const { name: text, shards } of vectors("names.json").crc32) {
    for (const [count, shard] of Object.entries(shards)) {
      assert.deepEqual(placesOf(Buffer.from(text), [Number(count)]), [shard], text);
    }
  }
});

test("keys have the same form everywhere", () => {
  const { key_form: form, keys } = vectors("protocol.json");
  for (const { name: text } of keys) {
    const expected = form.replace("NAMESPACE", "dq").replace("SHARD", "7").replace("NAME", text);
    assert.equal(keyOf("dq", 7, text), expected);
  }
  assert.deepEqual(keys.map((one: any) => one.name), [META, NEVER, WAKE, READY, `${WORKERS}TOPIC`]);
});

test("ids have the same forms everywhere", () => {
  for (const { text, hex, shard } of vectors("names.json").ids) {
    const raw = idBytes(text);
    assert.deepEqual([raw.toString("hex"), idText(raw), isGenerated(raw)], [hex, text, shard !== null]);
    if (shard !== null) assert.deepEqual(placesOf(raw, []), [shard]);
  }
});

test("a stored id names id and group everywhere", () => {
  for (const { id, group, hex } of vectors("names.json").stored_ids) {
    const stored = storedId(id, group ?? undefined);
    assert.equal(stored.toString("hex"), hex);
    const found = idAndGroup(stored);
    assert.deepEqual([found.id, found.group ?? null], [id, isGenerated(stored) ? null : group]);
  }
});

test("a name outside the rules has the same text everywhere", () => {
  for (const { text, hex } of vectors("names.json").odd_ids) {
    assert.deepEqual(idAndGroup(Buffer.from(hex, "hex")), { id: text });
    assert.deepEqual([storedId(text, undefined), storedId(text, "g")].map((stored) => stored.toString("hex")), [hex, hex]);
    assert.throws(() => newId(text), /can be cancelled, not put/);
  }
  for (const { text, hex } of vectors("names.json").odd_topics) {
    assert.deepEqual([topicText(Buffer.from(hex, "hex")), topicArg(text)], [text, Buffer.from(hex, "hex")]);
    assert.throws(() => name("topic", text), InvalidMessage);
  }
});

test("a generated id carries its shard", () => {
  for (const shard of [0, 1, 255, 4095]) {
    const id = generateId(shard);
    assert.deepEqual([placesOf(idBytes(id), []), idText(idBytes(id))], [[shard], id]);
  }
});

test("invalid names are refused", () => {
  for (const [what, names] of Object.entries<string[]>(vectors("names.json").refused)) {
    for (const text of [...names, "\ud800"]) {
      assert.throws(() => (what === "id" ? idBytes(text) : name(what as "id", text)), InvalidMessage, `${what} ${text}`);
    }
  }
});

test("a script is put together as everywhere", () => {
  const { verb, files, source, sha1 } = vectors("assembly.json");
  const folder = mkdtempSync(`${tmpdir()}/delayq-lua-`);
  for (const [file, text] of Object.entries<string>(files)) {
    mkdirSync(dirname(`${folder}/${file}`), { recursive: true });
    writeFileSync(`${folder}/${file}.lua`, text);
  }
  const made = script(verb, pathToFileURL(`${folder}/`));
  assert.deepEqual([made, createHash("sha1").update(made).digest("hex")], [source, sha1]);
  rmSync(folder, { recursive: true });
});

test("a URL says the hosts and the login as everywhere", () => {
  const { urls, refused } = vectors("urls.json");
  for (const { url, nodes, ...said } of urls) {
    const { username = null, password = null, nodes: found, ...rest } = readAddress(url)!;
    const places = found.map(({ host, port }) => [host, port]);
    assert.deepEqual({ ...rest, username, password, nodes: places }, { ...said, nodes });
  }
  for (const { url, named } of refused) {
    assert.throws(() => connect(url), (fault: Error) => {
      assert.ok(fault instanceof InvalidMessage && fault.message.includes(named) && !fault.message.includes("ter2"), `${url}: ${fault}`);
      return true;
    });
  }
});

const pumping = vectors("pumping.json");

/** A shard that was claimed, on a local clock that runs like Redis's. */
function owned(claimed: number, redisMs = 0): Shard {
  const shard = new Shard(0);
  shard.clock.hear(redisMs * 1000, redisMs, redisMs);
  shard.sends("claim");
  shard.own(1, claimed);
  return shard;
}

test("a worker that pumps does next what all clients do", () => {
  assert.deepEqual([LOCK_MS, POLL_MS], [pumping.lock_ms, pumping.poll_ms]);
  for (const one of pumping.owned) {
    const shard = owned(one.claimed_ms, one.now_ms);
    shard.sends("pump");
    if (one.woken_ms) shard.woken(String(one.woken_ms), one.pumped_ms);
    for (let n = 0; n < one.pump_errors; n++) shard.fail("pump", one.pumped_ms);
    const dueMs = one.next_due_ms ?? Infinity;
    if (one.pump_errors === 0) shard.answer(dueMs, false, !one.more && dueMs <= one.pumped_ms, one.pumped_ms);
    const { verb, at } = shard.next(one.now_ms);
    assert.deepEqual([verb, Math.max(at - one.now_ms, 0)], [one.does, one.in_ms], one.name);
  }
});

test("a worker that pumps claims when all clients do", () => {
  const now = 100_000;
  const events: Record<string, (shard: Shard, lockMs?: number) => void> = {
    claimed: (shard) => shard.own(1, now),
    owned: (shard, lockMs) => shard.lose(now, lockMs),
    free: (shard) => (shard.lose(now), shard.woken("free", now)),
    "free during the claim": (shard) => (shard.woken("free", now), shard.lose(now, 5_000)),
    fenced: (shard) => (shard.own(1, now), shard.lose(now)),
    error: (shard) => shard.fail("claim", now),
    "pumps were not answered for 10 s": (shard) => (shard.own(1, now - 10_000), shard.own(1, now)),
  };
  for (const { event, lock_ms: lockMs, claim_in_ms: least, random_ms: random } of pumping.claims) {
    const shard = new Shard(0);
    shard.sends("claim");
    events[event]!(shard, lockMs ?? undefined);
    const found = shard.claimAt - now;
    assert.ok(found >= least && found <= least + random, `${event}: ${found}`);
  }
});

test("a clock that jumped holds its shard until it was steady for ten seconds", () => {
  const shard = owned(0);
  const hear = (aheadMs: number, at: number): void => shard.clock.hear((aheadMs + at) * 1000, at, at + 1);
  shard.answer(Infinity, false, false, 0);
  for (const jumpMs of [5_000, -5_000]) {
    hear(shard.clock.aheadMs + jumpMs, 1_000);
    assert.equal(shard.next(1_000).verb, "hold");
    shard.answer(0, true, false, 1_000);
    assert.deepEqual(shard.next(1_000), { verb: "claim", at: 1_000 }); // closely; and never a pump
    for (let second = 2; second <= 11; second++) {
      hear(shard.clock.aheadMs, second * 1_000);
      assert.equal(shard.next(second * 1_000).verb, "claim", String(second));
    }
    hear(shard.clock.aheadMs, 11_500);
    assert.equal(shard.next(11_500).verb, "hold");
    shard.answer(0, false, false, 11_500);
    assert.equal(shard.next(11_500).verb, "pump");
  }
});

test("a hold of an earlier owner ends once the clock is proven, and a slow answer accuses nobody", () => {
  const shard = owned(0);
  shard.answer(0, true, false, 0);
  assert.deepEqual([shard.next(9_000), shard.next(10_000).verb], [{ verb: "claim", at: 1_000 }, "hold"]);
  shard.clock.hear(1_500_000, 1_000, 4_000);
  assert.ok(!shard.clock.isJumped);
});
