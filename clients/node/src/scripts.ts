/** The scripts: the files of lua/, put together with the functions they include. */

import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const INCLUDE = "--# include ";
const known = new Map<string, Script>();

export interface Script {
  source: string;
  /** The SHA-1 of the source in hex: its name in EVALSHA. */
  sha: string;
}

/** Puts one script together: an include line stands for the text of the files that it names. */
export function assemble(verb: string, folder: string): Script {
  const file = readFileSync(`${folder}/${verb}.lua`, "utf8");
  const lines = file.endsWith("\n") ? file.slice(0, -1).split("\n") : file.split("\n");
  const include = (name: string): string => readFileSync(`${folder}/lib/${name}.lua`, "utf8");
  const whole = (line: string): string =>
    line.startsWith(INCLUDE) ? line.slice(INCLUDE.length).split(", ").map(include).join("") : line;
  const source = lines.map((line) => `${whole(line)}\n`).join("");
  return { source, sha: createHash("sha1").update(source).digest("hex") };
}

/** Where the scripts are: packed with this package, or in the repository that it is developed in. */
export function scriptFolder(): string {
  const candidates = ["../../lua", "../../../../lua"].map((path) => fileURLToPath(new URL(path, import.meta.url)));
  const found = candidates.find((folder) => existsSync(`${folder}/put.lua`));
  if (!found) throw new Error(`delayq's Lua files are in none of ${candidates.join(", ")}`);
  return found;
}

/** A published script. */
export function script(verb: string): Script {
  let found = known.get(verb);
  if (!found) {
    found = assemble(verb, scriptFolder());
    known.set(verb, found);
  }
  return found;
}
