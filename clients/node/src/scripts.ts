/** Assembles the scripts of lua/ from the files and the functions included. */

import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";

/** In the package, or in the repository. */
export const LUA = ["../../lua/", "../../../../lua/"]
  .map((path) => new URL(path, import.meta.url))
  .find((folder) => existsSync(folder))!;

/** A script, and the name of the script in EVALSHA. */
export type Script = { source: string; sha: string };

const known = new Map<string, Script>();

/** Returns a script. Calls use the hash: users of `delayq acl print` may load scripts, but not EVAL. */
export function scriptOf(verb: string): Script {
  const source = known.get(verb)?.source ?? script(verb);
  const one = known.get(verb) ?? { source, sha: createHash("sha1").update(source).digest("hex") };
  known.set(verb, one);
  return one;
}

/** Replaces the include lines of a script by the named files. */
export function script(verb: string, lua = LUA): string {
  const read = (file: string): string => readFileSync(new URL(`${file}.lua`, lua), "utf8");
  const included = (_: string, names: string): string =>
    names.split(", ").map((name) => read(`lib/${name}`)).join("");
  return `${read(verb).replace(/\n$/, "")}\n`.replaceAll(/^--# include (.*)$/gm, included);
}
