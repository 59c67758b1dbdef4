#!/usr/bin/env python3
"""Holds the dashboard to the types that Grafana publishes: an unknown key, a missing one or a wrong value is a fault.

Usage: check-dashboard.py, after scripts/deploy-tools.sh dashboard
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DASHBOARD = ROOT / "deploy/grafana/delayq.json"
TOOLS = ROOT / "target/deploy-tools/dashboard"

# Grafana's panel type leaves options, fields and queries open; each kind has a module of its own.
TYPES = """
import type { Dashboard, DataQuery, Panel, RowPanel } from "@grafana/schema";
import type * as stat from "@grafana/schema/dist/esm/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen";
import type * as series from "@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen";
import type * as states from "@grafana/schema/dist/esm/raw/composable/statetimeline/panelcfg/x/StateTimelinePanelCfg_types.gen";

// JSON has the values of an enum in place of its names.
type Json<T> = T extends string ? `${T}` : T extends number ? number : T extends boolean | null | undefined ? T
  : T extends (infer U)[] ? Json<U>[] : T extends object ? { [K in keyof T]: Json<T[K]> } : T;
interface Query extends DataQuery { expr: string; legendFormat?: string; instant?: boolean; range?: boolean; exemplar?: boolean }
type Defaults = NonNullable<Panel["fieldConfig"]>["defaults"];
type Fields<F> = Omit<NonNullable<Panel["fieldConfig"]>, "defaults"> & { defaults: Omit<Defaults, "custom"> & { custom?: F } };
type Of<T, O, F> = Omit<Panel, "type" | "options" | "fieldConfig" | "targets">
  & { type: T; options?: Partial<O>; fieldConfig?: Fields<F>; targets?: Query[] };
type One = Json<Of<"stat", stat.Options, {}> | Of<"timeseries", series.Options, series.FieldConfig>
  | Of<"state-timeline", states.Options, states.FieldConfig> | (Omit<RowPanel, "type" | "panels"> & { type: "row"; panels?: never[] })>;
"""


def main():
    dashboard = json.loads(DASHBOARD.read_text())
    panels = dashboard.pop("panels")
    lines = [TYPES, f'export const dashboard: Json<Omit<Dashboard, "panels">> = {json.dumps(dashboard)};']
    lines += [f"export const panel_{panel['id']}: One = {json.dumps(panel)};" for panel in panels]
    # Below the tools, where modules are found.
    with tempfile.TemporaryDirectory(dir=TOOLS) as folder:
        source = Path(folder) / "dashboard.ts"
        source.write_text("\n".join(lines))
        options = "--noEmit --strict --skipLibCheck --module esnext --moduleResolution bundler --target es2022".split()
        compiler = TOOLS / "node_modules/typescript/bin/tsc"
        sys.exit(subprocess.run(["node", compiler, *options, source], check=False).returncode)


main()
