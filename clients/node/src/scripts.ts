/** The scripts: the files of lua/, put together with the functions they include. */

import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";

/** Packed with this package, or in the repository that it is developed in. */
export const LUA = ["../../lua/", "../../../../lua/"].map((path) => new URL(path, import.meta.url)).find(existsSync)!;
const known = new Map<string, [source: string, sha: string]>();

/** A script, and the SHA-1 of it in hex: its name in EVALSHA. */
export function script(verb: string, lua = LUA): [source: string, sha: string] {
  const found = known.get(lua + verb);
  if (found) return found;
  const read = (file: string): string => readFileSync(new URL(`${file}.lua`, lua), "utf8");
  const included = (_: string, names: string): string => names.split(", ").map((part) => read(`lib/${part}`)).join("");
  const source = `${read(verb).replace(/\n$/, "")}\n`.replaceAll(/^--# include (.*)$/gm, included);
  const made: [string, string] = [source, createHash("sha1").update(source).digest("hex")];
  known.set(lua + verb, made);
  return made;
}
