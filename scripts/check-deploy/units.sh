# shellcheck shell=bash
# The Debian package and its units in a system of their own. Sourced by check-deploy.sh.
make --no-print-directory check-units || fail "the package and its units"
claim "the package and its units"
