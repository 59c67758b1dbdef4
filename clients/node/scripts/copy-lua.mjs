// Packs the scripts: a copy of the repository's lua/ goes into the package.
import { cpSync } from "node:fs";

cpSync(new URL("../../../lua", import.meta.url), new URL("../lua", import.meta.url), { recursive: true });
