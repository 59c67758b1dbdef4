#!/usr/bin/env bash
# Installs the tools that look over deploy/ and are not in Debian, in pinned versions, into target/deploy-tools/bin:
#   python  hadolint, check-jsonschema, kubernetes-validate
#   helm    helm
#   book    mdbook: about three minutes of compiling
# What is there already is left alone. Ends with 69 when one cannot be had.
set -euo pipefail
cd "$(dirname "$0")/.."

HELM=v3.19.0
MDBOOK=0.5.4

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

install_book() {
    [ "$("$tools/bin/mdbook" --version 2> /dev/null)" = "mdbook v$MDBOOK" ] && return
    command -v cargo > /dev/null || refuse "there is no cargo"
    echo "deploy-tools: building mdbook $MDBOOK"
    CARGO_TARGET_DIR=$tools/mdbook cargo install --quiet --locked --no-default-features --root "$tools" --force \
        --version "$MDBOOK" mdbook || refuse "mdbook could not be built"
    rm -rf "$tools/mdbook"
}

[ $# -gt 0 ] || { echo "usage: $0 python|helm|book ..." >&2; exit 64; }
for set in "$@"; do
    case $set in
        python | helm | book) (install_$set) ;;
        *) echo "usage: $0 python|helm|book ..." >&2; exit 64 ;;
    esac
done
