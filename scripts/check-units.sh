#!/usr/bin/env bash
# Installs the Debian package in a separate system, with systemd as the first process, and checks the promises of the
# units. Needs root, mmdebstrap and systemd-nspawn; touches nothing outside its temporary folder.
# Usage: check-units.sh PACKAGE.deb
set -euo pipefail
package=$(realpath "$1")

work=$(mktemp -d /var/tmp/delayq-units.XXXXXX)
root=$work/root
leader='' passed=0

finish() {
    [ -z "$leader" ] || kill -RTMIN+4 "$leader" 2> /dev/null || true
    wait 2> /dev/null || true
    rm -rf --one-file-system "$work"
}
trap finish EXIT

inside() { nsenter -t "$leader" -m -u -i -n -p -- "$@"; }
claim() { passed=$((passed + 1)); echo "ok:      $1"; }
fail() {
    echo "FAILED:  $1"
    inside journalctl --no-pager --lines 40 --unit 'delayq-*' || true
    exit 1
}
# until WHAT COMMAND...: repeats the command until success, for half a minute.
until_so() {
    local what=$1 deadline=$((SECONDS + 30))
    shift
    until "$@" > /dev/null 2>&1; do
        [ $SECONDS -lt $deadline ] || fail "$what"
        sleep 0.1
    done
    claim "$what"
}
property() { inside systemctl show --value --property "$2" "$1"; }
pids() { for unit in timer forwarder compensator; do property delayq-$unit MainPID; done | sort; }
delayq() {
    inside env DELAYQ__REDIS__PASSWORD__FILE=/etc/delayq/credentials/redis-password \
        delayq --config /etc/delayq/delayq.toml "$@"
}

mmdebstrap --quiet --variant=minbase --include=systemd,systemd-sysv,dbus,redis-server,libssl3,zlib1g,ca-certificates \
    bookworm "$root"
cp "$package" "$root/var/tmp/delayq.deb"
chroot "$root" dpkg --install /var/tmp/delayq.deb > "$work/dpkg.log"
# A single timer, no etcd; the file sink writes where its unit may.
cat > "$root/etc/delayq/delayq.toml" <<'TOML'
[etcd]
enabled = false
[sinks.out.file]
dir = "/var/lib/delayq-forwarder"
[[routes]]
topic = "forwarded"
sink = "out"
to = "{topic}.ndjson"
TOML
sed -i 's/^appendonly no/appendonly yes/' "$root/etc/redis/redis.conf"
# Redis asks for a password, which only root can read: the units get it as a credential.
echo 'requirepass planted-secret' >> "$root/etc/redis/redis.conf"
install -D -m 600 /dev/stdin "$root/etc/delayq/credentials/redis-password" <<< planted-secret
install -D -m 644 /dev/stdin "$root/etc/systemd/system/delayq-.service.d/20-secrets.conf" << 'UNIT'
[Service]
LoadCredential=redis-password:/etc/delayq/credentials/redis-password
Environment=DELAYQ__REDIS__PASSWORD__FILE=%d/redis-password
UNIT

systemd-nspawn --quiet --directory "$root" --boot --private-network --register=no --keep-unit --machine=delayq-units \
    < /dev/null > "$work/console.log" 2>&1 &
nspawn=$!
until leader=$(pgrep -P $nspawn) && inside systemctl is-system-running --wait > /dev/null 2>&1; do
    kill -0 $nspawn || { cat "$work/console.log"; exit 1; }
    sleep 0.1
done
inside systemctl start redis-server
delayq init > /dev/null

# Type=notify: a start ends when the service reports readiness.
for unit in timer forwarder compensator; do
    inside systemctl start delayq-$unit || fail "delayq-$unit starts"
    [ "$(property delayq-$unit ActiveState)" = active ] || fail "delayq-$unit is ready"
    claim "delayq-$unit is ready"
done
[ "$(property delayq-timer User)" = delayq-timer ] || fail "the timer runs as a user of its own"
status=$(inside cat "/proc/$(property delayq-timer MainPID)/status")
grep -q '^NoNewPrivs:.1' <<< "$status" && grep -q '^CapEff:.0000000000000000' <<< "$status" ||
    fail "the timer has no privileges"
claim "the timer runs as a user of its own, without privileges"
if inside sh -c 'grep -al "planted-secre[t]" /proc/[0-9]*/environ /proc/[0-9]*/cmdline'; then fail "no process shows the password"; fi
claim "the password is a credential, in no process's variables or arguments"

delayq put forwarded '{"a":1}' --id a --in 200ms > /dev/null
until_so "a message is delivered into a file" inside grep -q '"id":"a"' /var/lib/delayq-forwarder/forwarded.ndjson

inside systemctl kill --signal KILL delayq-timer
until_so "a killed timer is started again" inside sh -c \
    '[ "$(systemctl show --value --property NRestarts delayq-timer)" -ge 1 ] && systemctl is-active delayq-timer'
delayq put forwarded '{"b":1}' --id b --in 200ms > /dev/null
until_so "and delivers again" inside grep -q '"id":"b"' /var/lib/delayq-forwarder/forwarded.ndjson

inside mkdir -p /run/systemd/system/delayq-timer.service.d
inside sh -c 'printf "[Service]\nWatchdogSec=3s\n" > /run/systemd/system/delayq-timer.service.d/watchdog.conf'
inside systemctl daemon-reload
inside systemctl restart delayq-timer
frozen=$(property delayq-timer MainPID)
inside sh -c "kill -STOP $frozen"
until_so "the watchdog replaces a frozen timer" inside sh -c \
    "[ \$(systemctl show --value --property MainPID delayq-timer) != $frozen ] && systemctl is-active delayq-timer"

inside sh -c 'printf "\n[deployment]\nshards = 0\n" >> /etc/delayq/delayq.toml'
inside systemctl restart delayq-timer || true
until_so "a faulty configuration is not tried again and again" inside sh -c \
    '[ "$(systemctl show --value --property ActiveState delayq-timer)" = failed ]'
inside sh -c 'head -n -3 /etc/delayq/delayq.toml > /tmp/mended && cat /tmp/mended > /etc/delayq/delayq.toml'
inside systemctl reset-failed delayq-timer
inside systemctl start delayq-timer

for n in $(seq 1 200); do echo "{\"id\":\"load-$n\",\"due\":\"+2s\"}"; done > "$root/var/tmp/load.ndjson"
delayq put forwarded --from /var/tmp/load.ndjson > /dev/null
before=$(pids)
inside dpkg --install /var/tmp/delayq.deb >> "$work/dpkg.log" 2>&1 || fail "the package is upgraded under load"
[ -z "$(comm -12 <(echo "$before") <(pids))" ] || fail "an upgrade of the package restarts every service"
claim "an upgrade of the package restarts every service"
until_so "every message is delivered through it" inside sh -c \
    '[ "$(grep -o "\"id\":\"load-[0-9]*\"" /var/lib/delayq-forwarder/forwarded.ndjson | sort -u | wc -l)" -eq 200 ]'
delayq audit > /dev/null || fail "the books balance"
claim "the books balance"

began=$SECONDS
inside systemctl stop 'delayq-*'
[ "$(property delayq-timer Result)" = success ] && [ $((SECONDS - began)) -le 20 ] || fail "a stop drains in time"
claim "a stop drains in time"
inside dpkg --remove delayq >> "$work/dpkg.log" 2>&1 || fail "the package is removed"
claim "the package is removed"
echo "units: $passed passed, 0 failed"
