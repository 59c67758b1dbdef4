/** The scripts: the files of lua/, put together with the functions they include. */

import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";

/** Packed with this package, or in the repository that it is developed in. */
export const LUA = ["../../lua/", "../../../../lua/"]
  .map((path) => new URL(path, import.meta.url))
  .find((folder) => existsSync(folder))!;

/** A script, and the hash that Redis knows it by once it was loaded. */
export type Script = { source: string; sha: string };

const known = new Map<string, Script>();

/** The script of a verb. Calls name it by its hash; the users of `delayq acl print` may load scripts, and not send them. */
export function scriptOf(verb: string): Script {
  const source = known.get(verb)?.source ?? script(verb);
  const one = known.get(verb) ?? { source, sha: createHash("sha1").update(source).digest("hex") };
  known.set(verb, one);
  return one;
}

/** A script: an include line stands for the texts of the files that it names. */
export function script(verb: string, lua = LUA): string {
  const read = (file: string): string => readFileSync(new URL(`${file}.lua`, lua), "utf8");
  const included = (_: string, names: string): string =>
    names.split(", ").map((name) => read(`lib/${name}`)).join("");
  return `${read(verb).replace(/\n$/, "")}\n`.replaceAll(/^--# include (.*)$/gm, included);
}
