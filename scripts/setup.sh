#!/usr/bin/env bash
# Installs the missing Debian packages for the named purposes: run, sinks, test, page, check, deploy, engine, cluster. Calls
# apt only if a package is missing; starts no service.
set -euo pipefail

sets=("$@")
[ ${#sets[@]} -gt 0 ] || { echo "usage: $0 run|sinks|test|page|check|deploy|engine|cluster ..." >&2; exit 64; }

packages=() reasons=()

wants() { # SET
    local set
    for set in "${sets[@]}"; do [ "$set" = "$1" ] && return 0; done
    return 1
}

# need PACKAGE REASON TEST...: the package is missing when the test fails.
need() {
    local package=$1 reason=$2
    shift 2
    "$@" > /dev/null 2>&1 && return
    packages+=("$package") reasons+=("$reason")
}

has() { # Debian keeps some daemons where only root's PATH looks.
    command -v "$1" || [ -x "/usr/sbin/$1" ]
}

if wants run || wants test; then
    need gcc "compiles the C parts of some crates" has cc
    need redis-server "delayq keeps its messages in Redis" has redis-server
    need etcd-server "timers agree through etcd who owns what" has etcd
fi
if wants sinks; then
    need make "builds librdkafka for the Kafka sink" has make
    need pkg-config "finds OpenSSL and zlib for librdkafka" has pkg-config
    need libssl-dev "TLS of the Kafka sink" test -f /usr/include/openssl/ssl.h
    need zlib1g-dev "compression of the Kafka sink" test -f /usr/include/zlib.h
fi
if wants test; then
    need redis-tools "redis-cli, for tests that act as an operator" has redis-cli
    need etcd-client "etcdctl, for tests that act as an operator" has etcdctl
    need rabbitmq-server "the RabbitMQ sink is tested against a real one" has rabbitmq-server
    need nats-server "the NATS sink is tested against a real one" has nats-server
    need default-jre-headless "runs the Kafka and the SQS server of the tests" has java
    need maven "fetches the Kafka and the SQS server of the tests" has mvn
    need kcat "an independent Kafka consumer" has kcat
    need nodejs "the Node client" has node
    need npm "fetches what the Node client is built with" has npm
    need golang-go "the Go client" has go
    need mariadb-server-core "the outbox is tested with a real one" has mariadbd
    need mariadb-client-core "makes the system tables of that MariaDB" has my_print_defaults
    need pgbouncer "the outbox is tested behind a pooler" has pgbouncer
    need php-cli "the guide's PHP program runs against the gateway" has php
    need php-curl "lmstfy's PHP client runs against the gateway" sh -c 'php -m | grep -x curl'
    need ruby "the guide's Ruby program runs against the gateway" has ruby
    need mono-mcs "the guide's C# program runs against the gateway" has mcs
    need libmono-system-net-http4.0-cil "HTTP in that program" test -e /usr/lib/mono/4.5/System.Net.Http.dll
    need libmono-system-runtime-serialization4.0-cil "JSON in that program" \
        test -e /usr/lib/mono/4.5/System.Runtime.Serialization.dll
    need postgresql "the outbox is tested with a real one" sh -c 'ls /usr/lib/postgresql/*/bin/postgres'
fi
if wants page || wants test; then
    need chromium "the page is tested in a real browser" has chromium
fi
if wants page; then
    need nodejs "drives the browser" has node
    need npm "fetches what drives the browser" has npm
    need nats-server "the page shows the age of an intake" has nats-server
    need postgresql "the page shows the age of an outbox" sh -c 'ls /usr/lib/postgresql/*/bin/postgres'
    need fonts-dejavu-core "letters" test -d /usr/share/fonts/truetype/dejavu
    need fonts-wqy-microhei "Chinese letters" test -d /usr/share/fonts/truetype/wqy
fi
if wants test || wants check; then
    need python3-venv "the Python client and the checks of deploy/ have environments of their own" \
        python3 -c 'import ensurepip, venv'
fi
if wants check; then
    need lua-check "looks over the Lua scripts" has luacheck
fi
if wants test || wants check; then
    need prometheus "promtool checks the alert rules, and each alert is tried with a real one" has promtool
fi
if wants deploy; then
    need mmdebstrap "makes the system that the units are tested in" has mmdebstrap
    need systemd-container "boots it" has systemd-nspawn
    need dpkg-dev "finds what the Debian package depends on" has dpkg-shlibdeps
fi

if wants engine; then
    need docker.io "builds and runs the container image" has dockerd
    # From Debian 13 on, the client and the builder are packages of their own.
    if apt-cache show docker-buildx > /dev/null 2>&1; then
        need docker-cli "talks to the engine" has docker
        need docker-buildx "builds the container image" docker buildx version
    fi
    need docker-compose "runs the compose file" sh -c 'docker compose version || docker-compose version'
    need mmdebstrap "makes the base images where no registry is reached" has mmdebstrap
    need curl "asks Prometheus what it sees" has curl
fi

if wants cluster; then
    need etcd-server "keeps the objects of the API server" has etcd
    need openssl "makes its key" has openssl
fi

if ! has cargo > /dev/null; then
    echo "setup: there is no cargo. Install Rust 1.94 or newer (https://rustup.rs), then run this again." >&2
    exit 69
fi
[ ${#packages[@]} -gt 0 ] || exit 0

echo "setup: ${#packages[@]} Debian package(s) missing:"
for i in "${!packages[@]}"; do printf '  %-22s %s\n' "${packages[i]}" "${reasons[i]}"; done

refuse() {
    echo "setup: $1" >&2
    echo "       Install by hand what provides: ${packages[*]}" >&2
    exit 69
}

has apt-get > /dev/null || refuse "this system has no apt-get."
as_root=()
if [ "$(id -u)" -ne 0 ]; then
    has sudo > /dev/null || refuse "installing needs root, and there is no sudo."
    as_root=(sudo)
fi

echo "setup: installing them by apt-get"
# Debian starts a server on installation, unless this file forbids that. An existing file is left alone; ours forbids
# only while this process lives, and removes itself if called after a kill.
policy=${POLICY_RC_D:-/usr/sbin/policy-rc.d}
mark="# written by delayq's setup.sh"
withdraw() {
    if grep -qsx "$mark, process $$" "$policy"; then "${as_root[@]}" rm -f "$policy"; fi
}
if [ ! -e "$policy" ] || grep -qs "^$mark" "$policy"; then
    trap withdraw EXIT
    trap 'exit 130' INT
    trap 'exit 143' HUP TERM
    "${as_root[@]}" tee "$policy" > /dev/null << EOF
#!/bin/sh
$mark, process $$
grep -qs setup.sh /proc/$$/cmdline && exit 101
rm -f "\$0"
exit 0
EOF
    "${as_root[@]}" chmod 755 "$policy"
fi

# Minimal images have no manual pages, and Java's package fails without the folder.
"${as_root[@]}" mkdir -p /usr/share/man/man1

apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get -q -o DPkg::Lock::Timeout=120)
"${apt[@]}" update > /dev/null || refuse "apt-get update failed."
"${apt[@]}" install -y --no-install-recommends "${packages[@]}" < /dev/null > /dev/null ||
    refuse "apt-get install failed."

# delayq starts these servers itself: they must not start with the machine.
if [ -d /run/systemd/system ]; then
    for package in "${packages[@]}"; do
        case $package in
            redis-server | rabbitmq-server | nats-server | prometheus) unit=$package ;;
            etcd-server) unit=etcd ;;
            *) continue ;;
        esac
        "${as_root[@]}" systemctl disable --quiet "$unit" 2> /dev/null || true
    done
fi
echo "setup: done; no service was started"
