# shellcheck shell=bash
# The image and the compose file on a real engine. Sourced by check-deploy.sh.
#
# An engine that runs already is used; else one of our own is started, without bridge networks. Images that no registry
# gives are made from Debian's packages, under the same tags. DELAYQ_IMAGE names an image that is built already; TESTS a part
# of the test suite in place of all of it: "cargo test --package delayq-core".
mkdir -p "$work/docker"

if ! "$docker" info > /dev/null 2>&1; then
    export DOCKER_HOST=unix://$work/docker/docker.sock
    # Neither forwarding, nor firewall rules, nor a bridge: nothing of the host's network changes.
    start dockerd dockerd --iptables=false --ip6tables=false --bridge=none --ip-forward=false --ip-masq=false \
        --data-root "$work/docker/data" --exec-root "$work/docker/exec" --pidfile "$work/docker/dockerd.pid" \
        --host "$DOCKER_HOST"
    soon "an engine of our own is up" "$docker" info
fi
compose=("$docker" compose)
"${compose[@]}" version > /dev/null 2>&1 || compose=(docker-compose)

# have TAG: the engine has the image, or a registry gives it.
have() {
    "$docker" image inspect "$1" > /dev/null 2>&1 || timeout 300 "$docker" pull --quiet "$1" > "$work/pull.log" 2>&1
}
# image TAG PACKAGES [LINE...]: pulled, or made of Debian's packages and further lines of a Dockerfile.
image() { have "$1" || make_image "$@"; }
make_image() {
    local tag=$1 packages=$2
    shift 2
    debian
    echo "         $tag is made of Debian's packages"
    mkdir -p "$work/docker/context"
    printf '%s\n' "FROM $BASE_IMAGE" \
        "RUN apt-get update && apt-get install --yes --no-install-recommends $packages && rm -rf /var/lib/apt/lists/*" "$@" \
        > "$work/docker/context/Dockerfile"
    DOCKER_BUILDKIT=1 "$docker" build --quiet --network=host --tag "$tag" "$work/docker/context" > "$work/build.log" 2>&1 ||
        fail "$tag cannot be made"
}
# The base image; without a registry, a system of Debian's packages that trusts the authorities of this machine.
debian() {
    have "$BASE_IMAGE" && return
    echo "         $BASE_IMAGE is made of Debian's packages"
    mmdebstrap --quiet --variant=minbase --include=ca-certificates bookworm "$work/docker/base.tar" 2> "$work/mmdebstrap.log" \
        --customize-hook='cp /etc/ssl/certs/ca-certificates.crt "$1/etc/ssl/certs/"' ||
        fail "$BASE_IMAGE cannot be made"
    "$docker" import --change 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' "$work/docker/base.tar" \
        "$BASE_IMAGE" > /dev/null
    rm "$work/docker/base.tar"
}
# The image of Rust; the toolchain of this machine stands in. npm and pip have authorities of their own.
rust() {
    local tag=rust:1.95-bookworm authorities=/etc/ssl/certs/ca-certificates.crt
    have "$tag" && return
    mkdir -p "$work/docker/context"
    cp -r "$(rustc --print sysroot)" "$work/docker/context/rust"
    make_image "$tag" "gcc g++ libc6-dev make" 'COPY rust /usr/local/rust' \
        'ENV PATH=/usr/local/rust/bin:$PATH CARGO_HOME=/usr/local/cargo' \
        "ENV NODE_EXTRA_CA_CERTS=$authorities PIP_CERT=$authorities"
    rm -r "$work/docker/context/rust"
}
BASE_IMAGE=debian:bookworm-slim
export REDIS_IMAGE=redis:7.4-bookworm ETCD_IMAGE=quay.io/coreos/etcd:v3.5.17 PROMETHEUS_IMAGE=prom/prometheus:v2.55.1
export RABBITMQ_IMAGE=rabbitmq:3.13
image $REDIS_IMAGE "redis-server redis-tools"
image $ETCD_IMAGE "etcd-server etcd-client"
image $PROMETHEUS_IMAGE prometheus 'ENTRYPOINT ["prometheus"]'
image $RABBITMQ_IMAGE rabbitmq-server 'CMD ["rabbitmq-server"]'

if [ -z "${DELAYQ_IMAGE:-}" ]; then
    export DELAYQ_IMAGE=delayq:check
    debian
    rust
    holds "make image" make --no-print-directory image DOCKER="$docker" IMAGE=$DELAYQ_IMAGE DOCKER_BUILD_OPTIONS=--network=host
fi
of_image() { "$docker" image inspect --format "$1" "$DELAYQ_IMAGE"; }
[ "$(of_image '{{.Config.User}}')" = 10001:10001 ] || fail "the image's user is a number that is not root"
claim "the image's user is a number that is not root"
run() { "$docker" run --rm --network none --read-only --cap-drop ALL --security-opt no-new-privileges "$DELAYQ_IMAGE" "$@"; }
for program in delayq delayq-timer delayq-forwarder delayq-compensator delayq-gateway; do
    holds "$program starts with a read-only root and without capabilities" run $program --version
done
holds "TLS finds the system's authorities" run test -s /etc/ssl/certs/ca-certificates.crt
if run sh -c 'touch /etc/delayq/x /usr/local/bin/x' > /dev/null 2>&1; then fail "nothing of the image can be written"; fi
claim "nothing of the image can be written"

REDIS_PORT=$(free_port) ETCD_PORT=$(free_port) ETCD_PEER_PORT=$(free_port) PROMETHEUS_PORT=$(free_port)
RABBITMQ_PORT=$(free_port) RABBITMQ_PEER_PORT=$(free_port) RABBITMQ_MAPPER_PORT=$(free_port) GATEWAY_PORT=$(free_port)
export REDIS_PORT ETCD_PORT ETCD_PEER_PORT PROMETHEUS_PORT RABBITMQ_PORT RABBITMQ_PEER_PORT RABBITMQ_MAPPER_PORT GATEWAY_PORT
stack() {
    "${compose[@]}" --project-name delayq-check --file deploy/compose/compose.yaml --file deploy/compose/compose.host.yaml "$@"
}
down() {
    [ "${status:-0}" -eq 0 ] || stack logs --tail 10 || true
    stack down --volumes --timeout 5 > /dev/null 2>&1 || true
}
cleanups+=(down)
down
services=(timer-1 timer-2 forwarder compensator gateway-host)
container() { stack ps --quiet "$1"; }
state() { "$docker" inspect --format "$2" "$(container "$1")"; }
are() { # HEALTH SERVICE...
    local health=$1
    shift
    for service in "$@"; do [ "$(state "$service" '{{.State.Health.Status}}')" = "$health" ] || return 1; done
}
inside() { "$docker" exec "$@"; }
delayq() { inside "$(container timer-1)" delayq --config /etc/delayq/delayq.toml "$@"; }

holds "compose up" stack up --detach
soon "every service is healthy" are healthy "${services[@]}"
holds "a message is put" delayq put greetings '{"hello":"world"}' --id one --in 1s
delivered() { inside "$(container forwarder)" grep -q '"id":"one"' /var/lib/delayq/delivered/greetings.ndjson; }
soon "and delivered" delivered
holds "another is put" delayq put orders '{"order":17}' --in 1s
queued() { inside "$(container rabbitmq)" rabbitmqctl --quiet list_queues name messages | grep -q '^orders.1$'; }
soon "and delivered into RabbitMQ" queued
put_by_http() {
    curl --silent --fail -X PUT "http://127.0.0.1:$GATEWAY_PORT/v1/topics/greetings/messages/two" \
        -H 'Content-Type: application/json' -d '{"due": "+1h", "payload": "hello"}' > /dev/null
}
holds "a message is put over HTTP" put_by_http
holds "the books balance" delayq audit
ask() { curl --silent --fail "http://127.0.0.1:$PROMETHEUS_PORT/api/v1/$1"; }
all_up() { [ "$(ask 'query?query=sum(up)' | grep -o '"5"')" = '"5"' ]; }
soon "Prometheus reaches every service" all_up
has_rules() { ask rules | grep -q DelayqOverdue; }
soon "and has the alerts" has_rules

stack stop redis > /dev/null 2>&1
# The compensator is ready without Redis, as long as nothing is spooled.
soon "without Redis timers and forwarder are unhealthy" are unhealthy timer-1 timer-2 forwarder
for service in "${services[@]}"; do
    [ "$(state "$service" '{{.State.Running}} {{.RestartCount}}')" = "true 0" ] || fail "and keep running"
done
claim "and keep running"
stack start redis > /dev/null 2>&1
soon "with Redis back they are healthy again" are healthy "${services[@]}"

began=$SECONDS
stack stop "${services[@]}" > /dev/null 2>&1
took=$((SECONDS - began))
for service in "${services[@]}"; do
    [ "$(stack ps --all --quiet "$service" | xargs "$docker" inspect --format '{{.State.ExitCode}}')" = 0 ] || fail "a stop drains each service"
done
[ $took -le 20 ] || fail "a stop drains each service within its grace period"
claim "a stop drains each service within its grace period"

down
rust
export TESTS_IMAGE=delayq-tests:check TESTS=${TESTS:-make test}
build_tests() {
    DOCKER_BUILDKIT=1 "$docker" build --network=host --file deploy/docker/tests.Dockerfile --tag $TESTS_IMAGE .
}
holds "the image of the tests" build_tests
tests() { "${compose[@]}" --project-name delayq-check-tests --file deploy/compose/compose.test.host-network.yaml "$@"; }
# The built files are kept, unless the engine is private.
tests_down() { tests down --timeout 5 > /dev/null 2>&1 || true; }
cleanups+=(tests_down)
if ! tests run --rm -T tests > "$work/tests.log" 2>&1; then
    grep -E '^(test .* FAILED|failed: )' "$work/tests.log" || true
    fail "the test suite in a container ($TESTS)"
fi
ran=$(awk '/^test result: ok/ { sum += $4 } END { print sum + 0 " passed" }' "$work/tests.log")
clients=$(grep '^clients: ' "$work/tests.log" || true)
claim "the test suite in a container ($TESTS): $ran${clients:+; $clients}"
