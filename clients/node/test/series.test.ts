/** Messages of several dates. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { InvalidMessage, series, type Message } from "../src/index.js";
import { vectors } from "./server.js";

const { series: cases, refused } = vectors("series.json");
const AT = 1_900_000_000_000;

for (const { name, id, due_ms, ids, group } of cases) {
  test(`a series has the same ids everywhere and is a group: ${name}`, () => {
    const messages = series({ topic: "t", payload: "x", id }, due_ms);
    assert.deepEqual(messages.map((one) => [one.id, one.group, one.at]), ids.map((one: string, n: number) => [one, group, due_ms[n]]));
  });
}

for (const { name, id, group, dates, why } of refused) {
  test(`what is no series is refused by name: ${name}`, () => {
    const message: Message = { topic: "t", payload: "x", ...(id === null ? {} : { id }), ...(group === null ? {} : { group }) };
    const dues = Array.from({ length: dates }, () => AT);
    assert.throws(() => series(message, dues), (fault: Error) => fault instanceof InvalidMessage && fault.message.includes(why));
  });
}

test("a date of a series is a time or a delay", () => {
  const [first, second] = series({ topic: "t", payload: "x", id: "a", afterMs: 5 }, [new Date(AT), { afterMs: 86_400_000 }]);
  assert.deepEqual([first?.at, first?.afterMs, second?.at, second?.afterMs], [new Date(AT), undefined, undefined, 86_400_000]);
});
