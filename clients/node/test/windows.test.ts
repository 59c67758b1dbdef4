/** Due times that are spread by id, as all clients spread them. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { between, InvalidMessage, jitterMs } from "../src/index.js";
import { vectors } from "./server.js";

const { offsets, windows, refused } = vectors("windows.json");

for (const { name, window, id, earliest_ms, due_ms } of windows) {
  test(`an id has the same time in a window everywhere: ${name}`, () => {
    assert.equal(between(window, id, earliest_ms).getTime(), due_ms);
  });
}

for (const { name, window, why } of refused) {
  test(`what is no window is refused by name: ${name}`, () => {
    assert.throws(() => between(window, "a"), (fault: Error) => fault instanceof InvalidMessage && fault.message.includes(why));
  });
}

test("an id has the same jitter everywhere", () => {
  for (const { id, span_ms, offset_ms } of offsets) assert.equal(jitterMs(id, span_ms), offset_ms, id);
  assert.throws(() => jitterMs("order-17", -1), InvalidMessage);
});

test("a window opens from now on", () => {
  const due = between("09:00-10:00 UTC", "order-17");
  assert.equal(due.getUTCHours(), 9);
  assert.ok(due.getTime() >= Date.now() - 1_000 && due.getTime() < Date.now() + 86_400_000);
});
