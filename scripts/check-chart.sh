#!/usr/bin/env bash
# Renders the Helm chart with default values and with every option on, into FOLDER. Checks `helm lint --strict`, the
# refusals of invalid values, and the README against the values.
# Usage: check-chart.sh FOLDER
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:?FOLDER}
chart=deploy/kubernetes/delayq
mkdir -p "$folder"

# Alerts and dashboard are links out of the chart, and helm says so each time.
quiet() { grep -v 'walk.go:.*found symbolic link' || true; }
render() { helm template delayq $chart --namespace delayq --kube-version 1.34.0 "$@" 2> >(quiet >&2); }

for values in values ci/everything ci/keda; do
    helm lint --strict --quiet --kube-version 1.34.0 --values $chart/$values.yaml $chart 2>&1 | quiet
    render --values $chart/$values.yaml > "$folder/$(basename $values).yaml"
done

refuses() {
    if render --set "$1" > /dev/null 2>&1; then echo "the chart accepts $1"; exit 1; fi
}
refuses image.tga=1                              # no such value
refuses 'timer.environment[0].name=DELAYQ__REDIS__ULR,timer.environment[0].value=x' # no such setting
refuses 'forwarder.environment[0].name=A,forwarder.environment[0].vlaue=x'
refuses redis.url=redis://:password@redis:6379   # a secret in plain text
refuses redis.url=redis+sentinel://:password@sentinel:26379/delayq
refuses drainSeconds=6                           # a forwarder alone waits as long
refuses timer.replicas=two
refuses etcd.enabled=false                       # with two timers
refuses timer.autoscaling.readyMessages=1          # timers scale by their own work
refuses gateway.enabled=true,gateway.cleartext=true  # neither tokens nor the explicit word
refuses gateway.enabled=true,gateway.insecure=true   # neither TLS nor the explicit word
refuses gateway.enabled=true,gateway.insecure=true,gateway.cleartext=true,gateway.clientCaSecret.name=clients
refuses gateway.enabled=true,gateway.insecure=true,gateway.cleartext=true,gateway.spool=true # nobody reads the spool
refuses forwarder.keda.enabled=true,forwarder.autoscaling.enabled=true
refuses forwarder.keda.horizon=90s                 # the label says 1m 30s
refuses forwarder.keda.enabled=true,config='horizons = 1' # which the chart's own would override
refuses forwarder.keda.enabled=true,timer.horizons='{1s,2s,3s,4s}'
refuses forwarder.keda.serverAddress=http://admin:password@prometheus:9090

grep -qF "value: '[\"30s\",\"2m\",\"1h\"]'" "$folder/keda.yaml" || { echo "the horizons are not those of timer and KEDA"; exit 1; }

# The pods' templates change with the configuration, and never otherwise.
hash_of() { render "$@" | sed -n 's/.*checksum\/config: //p' | sort -u; }
[ "$(hash_of)" != "$(hash_of --set config='[timer]')" ] || { echo "a changed config does not restart the pods"; exit 1; }
[ "$(hash_of)" = "$(hash_of --set timer.replicas=3)" ] || { echo "the number of timers restarts the pods"; exit 1; }

# Every object of the schema that names its keys accepts no other key.
# Every value has a line in the README: the full name, or `….rest` if timer and forwarder share the value.
target/deploy-tools/venv/bin/python - $chart << 'PYTHON'
import json, re, sys, yaml
from pathlib import Path

chart = Path(sys.argv[1])

def open_objects(node, path=""):
    if isinstance(node, dict) and "properties" in node and node.get("additionalProperties") is not False:
        yield path or "/"
    for key, inner in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        yield from open_objects(inner, f"{path}/{key}")

ignoring = list(open_objects(json.loads((chart / "values.schema.json").read_text())))
if ignoring:
    sys.exit("values.schema.json accepts unknown values at: " + ", ".join(ignoring))

named = set(re.findall(r"`([\w.…]+)`", (chart / "README.md").read_text()))

def leaves(values, path=()):
    whole = not isinstance(values, dict) or not values or path[-1:] in (("resources",), ("labels",), ("jobResources",))
    if whole:
        yield path
    else:
        for key, value in values.items():
            yield from leaves(value, (*path, key))

def is_named(path):
    twins = {"forwarder": "timer", "compensator": "timer"}
    forms = {".".join(path), ".".join((twins.get(path[0], path[0]), *path[1:])), ".".join(("…", "", *path[1:])).replace("..", ".")}
    return bool(forms & named)

missing = [".".join(path) for path in leaves(yaml.safe_load((chart / "values.yaml").read_text())) if not is_named(path)]
if missing:
    sys.exit("README.md of the chart does not name: " + ", ".join(missing))
PYTHON
