/** What is packed can work without the repository. */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { LUA } from "../src/scripts.js";

test("a package brings every script", () => {
  const folder = mkdtempSync(`${tmpdir()}/delayq-pack-`);
  const here = fileURLToPath(new URL("../..", import.meta.url));
  // Packed in a copy, so that the tests that read the repository's scripts are not disturbed.
  cpSync(here, `${folder}/clients/node`, { recursive: true, filter: (path) => !path.endsWith("node_modules") });
  cpSync(LUA, `${folder}/lua`, { recursive: true });
  const cwd = `${folder}/clients/node`;
  execFileSync("cp", ["-R", "../../lua", "."], { cwd });
  const listed = execFileSync("npm", ["pack", "--dry-run", "--json", "--ignore-scripts"], {
    cwd,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "ignore"],
  });
  rmSync(folder, { recursive: true });
  const scripts = readdirSync(LUA, { recursive: true }).filter((name) => String(name).endsWith(".lua"));
  assert.ok(scripts.length > 20);
  for (const name of [...scripts.map((name) => `lua/${name}`), "dist/src/index.js"]) {
    assert.ok(listed.includes(`"${name}"`), `${name} is not packed`);
  }
});
