#!/usr/bin/env python3
"""Holds alerts, dashboard and runbooks to the metrics that the programs export, as docs/metrics.md has them.

Every `delayq_` name, label and label value in them must exist; every alert has a runbook, a case in which it fires and
one in which it does not. With FILE, the dashboard's queries are written there as rules, for promtool to parse.
Usage: check-telemetry.py [FILE]
"""

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ALERTS = ROOT / "deploy/prometheus/alerts.yaml"
ALERT_TESTS = ROOT / "deploy/prometheus/alerts.test.yaml"
METRICS = ROOT / "docs/metrics.md"
DASHBOARD = ROOT / "deploy/grafana/delayq.json"
RUNBOOKS = ROOT / "docs/runbooks.md"
PAGES = sorted(page for page in (ROOT / "docs").rglob("*.md") if page not in (RUNBOOKS, METRICS))
CHART = sorted((ROOT / "deploy/kubernetes").rglob("*.yaml"))

# Labels that Prometheus, Kubernetes or a rule adds.
FOREIGN_LABELS = {"__name__", "deployment", "instance", "job", "job_name", "le", "namespace", "pod"}
SUFFIXES = {"histogram": ["_bucket", "_count", "_sum"]}


def sources():
    """The programs' source, without tests and comments."""
    for file in sorted(ROOT.glob("crates/*/src/**/*.rs")):
        text = file.read_text().split("#[cfg(test)]")[0]
        yield re.sub(r"^\s*//.*$", "", text, flags=re.M)


def metrics_of(page):
    """Every series and every label of the page of metrics, which a test holds to what the programs export."""
    metrics, labels = set(), set()
    for name, kind, of in re.findall(r"^\| `(delayq_\w+)` \| (\w+) \| ([^|]*) ?\|", page, flags=re.M):
        metrics.update(name + suffix for suffix in SUFFIXES.get(kind, [""]))
        labels.update(re.findall(r"`(\w+)`", of))
    return metrics, labels


def labels_of(text):
    """Every label and its type: of a `&'static str` the values stand in the source."""
    for found in re.finditer(r"EncodeLabelSet[^{]*struct \w+ \{([^}]*)\}", text):
        yield from re.findall(r"(\w+): (.+?),?\n", found[1])


def used_names(text):
    """Metric names in a text; neither recorded series (job:…:…) nor names of crates (delayq_timer=debug, delayq_x::y),
    nor a prefix (delayq_check_…)."""
    return set(re.findall(r"(?<![:\w])(delayq_[a-z0-9_]*[a-z0-9])(?![\w:]|=\w)", text))


def used_labels(text):
    for group in re.findall(r"\b(?:by|without|on|ignoring) \((\w+(?:, \w+)*)\)", text):
        yield from ((label.strip(), None) for label in group.split(","))
    for matchers in re.findall(r"(?:delayq_\w+|^|\s)\{([^{}]*=~?\\?\"[^{}]*)\}", text):
        for label, values in re.findall(r"(\w+)\s*(?:=~|!=|!~|=)\s*\\?\"([^\"\\]*)", matchers):
            yield label, values


def check(faults, name, text, metrics, labels, source):
    for metric in sorted(used_names(text) - metrics):
        faults.append(f"{name}: nothing exports {metric}")
    for label, values in sorted(set(used_labels(text)), key=str):
        if label not in labels.keys() | FOREIGN_LABELS:
            faults.append(f"{name}: no metric has the label {label}")
        elif labels.get(label) == "&'static str" and values:
            for value in filter(None, values.split("|")):
                if f'"{value}"' not in source:
                    faults.append(f"{name}: nothing exports {label}=\"{value}\"")


def check_alerts(faults):
    alerts = set(re.findall(r"- alert: (\w+)", ALERTS.read_text()))
    cases = ALERT_TESTS.read_text()
    quiet = set(re.findall(r"\{ alertname: (\w+), eval_time: \w+ \}", cases))
    firing = set(re.findall(r"- alertname: (\w+)\n\s+eval_time: \w+\n\s+exp_alerts:", cases))
    runbooks = set(re.findall(r"^## (Delayq\w+)$", RUNBOOKS.read_text(), flags=re.M))
    for which, found in (("a case in which it fires", firing), ("a case in which it does not", quiet), ("a runbook", runbooks)):
        faults.extend(f"{alert} has not {which}" for alert in sorted(alerts - found))
        faults.extend(f"{alert} has {which}, and is no alert" for alert in sorted(found - alerts))


def queries_of(dashboard):
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], re.sub(r"^label_values\((.*), \w+\)$", r"\1", variable["query"]["query"])


def as_rules(queries):
    rules = []
    for number, (_, query) in enumerate(queries):
        query = query.replace("$__rate_interval", "5m").replace("$__range", "1h")
        rules.append({"record": f"dashboard:query_{number}:parsed", "expr": query})
    return json.dumps({"groups": [{"name": "dashboard", "rules": rules}]})


def main():
    texts = list(sources())
    source = "\n".join(texts)
    metrics, exported = metrics_of(METRICS.read_text())
    metrics |= set(re.findall(r"name: \{ as: (\w+) \}", (ROOT / "docs/kubernetes.md").read_text()))
    # Prose names the tables of an outbox, too.
    tables = {name for file in ROOT.glob("crates/*/src/**/*.sql") for name in re.findall(r"delayq_\w+", file.read_text())}
    labels = dict(label for text in texts for label in labels_of(text))
    labels = {label: labels.get(label) for label in exported}

    faults = []
    for file in [ALERTS, ALERT_TESTS, RUNBOOKS, *PAGES, *CHART]:
        # Prose names a histogram as registered; a query names a series of the histogram.
        prose = tables | {series.removesuffix("_bucket") for series in metrics}
        known = metrics | prose if file.suffix == ".md" else metrics
        if file.exists():
            check(faults, file.relative_to(ROOT), file.read_text(), known, labels, source)
    queries = list(queries_of(json.loads(DASHBOARD.read_text())))
    for title, query in queries:
        check(faults, f"{DASHBOARD.relative_to(ROOT)}, {title}", query, metrics, labels, source)
    check_alerts(faults)
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(as_rules(queries))
    if faults:
        sys.exit("\n".join(faults))
    print(f"{len(metrics)} names, {len(queries)} queries of the dashboard")


if __name__ == "__main__":
    main()
