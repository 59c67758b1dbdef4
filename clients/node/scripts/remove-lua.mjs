// Takes the copy of the scripts away again, so that the repository's own are read in it.
import { rmSync } from "node:fs";

rmSync(new URL("../lua", import.meta.url), { recursive: true, force: true });
