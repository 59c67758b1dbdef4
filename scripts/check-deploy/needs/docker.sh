# shellcheck shell=bash
# The engine, and a client that can build: the variable docker. Sourced by check-deploy.sh.
scripts/setup.sh engine

# builds CLIENT: with BuildKit. A client of 23 or newer needs the component buildx; older clients include BuildKit.
builds() {
    local version
    version=$("$1" --version 2> /dev/null | sed -n 's/^Docker version \([0-9]*\).*/\1/p')
    [ -n "$version" ] && { [ "$version" -lt 23 ] || "$1" buildx version > /dev/null 2>&1; }
}
docker=
for client in "${DOCKER:-docker}" /usr/bin/docker; do
    if builds "$client"; then docker=$client && break; fi
done
[ -n "$docker" ] || fail "no docker client here can build: \
$(command -v "${DOCKER:-docker}" || echo none) has no component buildx, which the package docker-buildx brings \
(docker-buildx-plugin, if the client is Docker's own); or name another client by DOCKER="
