#!/usr/bin/env bash
# hack/try.sh FILE: runs a Gateway of a file on this machine, without Kubernetes. HAProxy is the one on the PATH, the one
# of the tests, or, where there is neither, its image by docker.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=hack/lib.sh
source hack/lib.sh

need_go
# Fetching it takes the network, building the processor: both go on at the same time.
found=$(mktemp)
trap 'rm -f "$found"' EXIT
hack/haproxy.sh >"$found" &
fetching=$!
# What rules with a WAF or OIDC need beside it is big, so it is built for these alone.
programs=()
! grep -qs 'type: WAF' "$1" || programs+=(bin/gateway-waf)
! grep -qs 'type: OIDC' "$1" || programs+=(bin/gateway-login)
say "Building the plugin${programs[*]:+, ${programs[*]}}"
[[ -e bin/kubectl-gateway ]] || echo "The first time, Go fetches and compiles some 850 packages, in about two minutes on two cores."
GOFLAGS="${GOFLAGS:-} -v" make --no-print-directory plugin "${programs[@]}" 2>&1 | awk '
    /^go: downloading / { next }
    /^[^ :]+$/ { if (++compiled % 100 == 0) print compiled " packages are compiled"; fflush(); next }
    { print; fflush() }'
if wait "$fetching"; then
    PATH=$(<"$found"):$PATH
    export PATH
fi
rm -f "$found"
say "Running $1"
exec bin/kubectl-gateway try -f "$1"
