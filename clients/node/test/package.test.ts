/** The package as a user gets it: packed, installed into an empty folder, and put to work by the README's program. */

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { Client } from "../src/index.js";
import { LUA } from "../src/scripts.js";
import { init, Server } from "./server.js";

const HERE = fileURLToPath(new URL("../..", import.meta.url));
let folder: string;
let server: Server;
before(async () => {
  folder = mkdtempSync(`${tmpdir()}/delayq-pack-`);
  server = await Server.start();
});
after(async () => {
  rmSync(folder, { recursive: true });
  await server.stop();
});

const npm = (cwd: string, ...args: string[]) =>
  execFileSync("npm", [...args, "--silent"], { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });

/** Packs a copy of the package, so that the tests that read the repository's scripts are not disturbed. */
function packed(into: string): Buffer {
  cpSync(HERE, `${into}/clients/node`, { recursive: true, filter: (path) => !path.endsWith("node_modules") });
  cpSync(LUA, `${into}/lua`, { recursive: true });
  execFileSync("cp", ["-R", "../../lua", "."], { cwd: `${into}/clients/node` });
  npm(`${into}/clients/node`, "pack", "--ignore-scripts", "--pack-destination", into);
  return readFileSync(`${into}/delayq-0.1.0.tgz`);
}

test("a package is the same each time, and has the scripts, the types, the licence and the changes", () => {
  assert.deepEqual(packed(`${folder}/one`), packed(`${folder}/other`));
  const listed = execFileSync("tar", ["-tf", `${folder}/one/delayq-0.1.0.tgz`], { encoding: "utf8" });
  const scripts = readdirSync(LUA, { recursive: true }).filter((name) => String(name).endsWith(".lua"));
  assert.ok(scripts.length > 20);
  const others = ["dist/src/index.js", "dist/src/index.d.ts", "LICENSE", "CHANGELOG.md", "README.md"];
  for (const name of [...scripts.map((name) => `lua/${name}`), ...others]) {
    assert.ok(listed.includes(`package/${name}\n`), `${name} is not packed`);
  }
});

test("what the README shows is right by the package's types", () => {
  packed(`${folder}/types`);
  mkdirSync(`${folder}/typed`);
  writeFileSync(`${folder}/typed/package.json`, '{"private": true, "type": "module"}');
  npm(`${folder}/typed`, "install", "--prefer-offline", `${folder}/types/delayq-0.1.0.tgz`, "ioredis@5.11.1");
  const shown = [...readFileSync(`${HERE}/README.md`, "utf8").matchAll(/```[jt]s\n(.*?)```/gs)].map(([, text]) => text);
  assert.equal(shown.length, 5);
  const unions = "switch (put.word) {\n  case \"stored\": break;\n  // @ts-expect-error: a put has no such word\n  case \"delivered\": break;\n}\n";
  writeFileSync(`${folder}/typed/shown.ts`, shown.join("\n") + unions);
  const options = ["--noEmit", "--strict", "--module", "NodeNext", "--target", "ES2023", "--skipLibCheck", "--types", "node"];
  const tsc = [`${HERE}/node_modules/typescript/bin/tsc`, ...options, "--typeRoots", `${HERE}/node_modules/@types`, "shown.ts"];
  execFileSync(process.execPath, tsc, { cwd: `${folder}/typed`, stdio: "inherit" });
});

test("installing from a checkout, by the README's line, leaves nothing in it that Git sees", () => {
  const [checkout, user] = [`${folder}/checkout`, `${folder}/user`];
  const node = `${checkout}/clients/node`;
  const git = (...args: string[]) => execFileSync("git", args, { cwd: checkout, encoding: "utf8" });
  const isBuilt = (path: string): boolean => /\/(node_modules|dist|lua)$/.test(path);
  cpSync(HERE, node, { recursive: true, filter: (path) => !isBuilt(path) });
  cpSync(LUA, `${checkout}/lua`, { recursive: true });
  cpSync(new URL("../.gitignore", LUA), `${checkout}/.gitignore`);
  git("init", "--quiet");
  git("add", ".");
  // Stands for the packages that `npm ci` would fetch.
  mkdirSync(`${node}/node_modules`);
  for (const name of readdirSync(`${HERE}/node_modules`)) symlinkSync(`${HERE}/node_modules/${name}`, `${node}/node_modules/${name}`);
  mkdirSync(user);
  writeFileSync(`${user}/package.json`, '{"private": true, "type": "module"}');
  const line = /^ {4}(npm install "\$\(npm pack .*)$/m.exec(readFileSync(`${HERE}/README.md`, "utf8"))![1]!;
  const here = line.replace("../delayq/clients/node", node).replace(/ioredis$/, "ioredis@5.11.1");
  execFileSync("sh", ["-ec", `${here} --silent --prefer-offline`], { cwd: user, stdio: ["ignore", "pipe", "inherit"] });
  execFileSync(process.execPath, ["-e", 'import("delayq").then(({ Worker }) => process.exit(Worker ? 0 : 1))'], { cwd: user });
  assert.equal(git("diff", "--stat") + git("ls-files", "--others", "--exclude-standard"), "");
});

test("the README's first program delivers its message, from an installed package, and ends by SIGTERM", async () => {
  const redis = server.connect();
  await init(redis, "dq", 4);
  server.startTimer("dq", 4);
  packed(`${folder}/readme`);
  writeFileSync(`${folder}/package.json`, '{"private": true, "type": "module"}');
  npm(folder, "install", "--prefer-offline", `${folder}/readme/delayq-0.1.0.tgz`, "ioredis@5.11.1");
  const program = /```js\n(.*?)```/s.exec(readFileSync(`${HERE}/README.md`, "utf8"))![1]!;
  writeFileSync(`${folder}/program.js`, program);
  const env = { ...process.env, REDIS_URL: `unix://${server.socket}` };
  const running = spawn(process.execPath, ["program.js"], { cwd: folder, env, stdio: ["ignore", "pipe", "inherit"] });
  const ended = once(running, "exit");
  const [line] = await Promise.race([once(createInterface(running.stdout), "line"), ended]);
  assert.equal(line, "node-17 is due: { order: 17 }");
  running.kill("SIGTERM");
  assert.deepEqual(await ended, [null, "SIGTERM"]);
  assert.equal((await new Client(redis).topic("node-orders").count()).delivered, 1);
  redis.disconnect();
});
