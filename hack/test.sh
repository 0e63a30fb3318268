#!/usr/bin/env bash
# Runs all tests, or with the argument e2e the end-to-end tests only. Where no node can run, the end-to-end tests are left out and the last lines say so; with CI=true that fails.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=hack/lib.sh
source hack/lib.sh
forget_own_cluster

suites=0 failed=0 results=() left_out=()
output=$(mktemp)
trap 'rm -f "$output"' EXIT

# suite NAME COMMAND...: runs a suite and remembers how it ended and which tests failed, so that one failure does not hide another.
suite() {
    local name=$1 begin=$SECONDS
    shift
    say "$name"
    if "$@" 2>&1 | tee "$output"; then
        results+=("passed  $name ($((SECONDS - begin)) s)")
    else
        results+=("FAILED  $name ($((SECONDS - begin)) s)")
        mapfile -t -O "${#results[@]}" results < <(sed -n 's/^\( *\)--- FAIL: /            \1/p' "$output")
        failed=$((failed + 1))
    fi
    suites=$((suites + 1))
}

# end_to_end needs a node: KUBECONFIG's cluster with the images and the operator deployed, or the one-node cluster. Most of the
# time these tests wait, so more run at once than there are cores. With the argument newer, proxies have the HAProxy of the default image.
end_to_end() {
    if [[ -z ${KUBECONFIG:-} ]]; then
        hack/cluster/cluster.sh up || return 1
        local images newer=""
        images=$(hack/images.sh) || return 1
        [[ ${1:-} != newer ]] || newer=$(hack/haproxy-image.sh) || return 1
        eval "$images"
        eval "$newer"
        KUBECONFIG=$(hack/cluster/cluster.sh kubeconfig) || return 1
        export KUBECONFIG
    fi
    make --no-print-directory -s deploy || return 1
    (cd test && go test -v -count=1 -parallel=3 -timeout=25m ./e2e/...)
}

api_server() {
    KUBEBUILDER_ASSETS=$(hack/cluster/cluster.sh assets) || return 1
    export KUBEBUILDER_ASSETS
    (cd test && go list ./... | grep -vE '/(e2e|apiserver/faults|bench/.*)$' | xargs go test -count=1 -timeout=15m -skip='^TestSoak$')
}

plugin() {
    KUBEBUILDER_ASSETS=$(hack/cluster/cluster.sh assets) || return 1
    export KUBEBUILDER_ASSETS
    (cd cmd/kubectl-gateway && go test -count=1 -timeout=10m ./...)
}

# faults runs alone: what it says about time should be about the programs, not about other tests.
faults() {
    KUBEBUILDER_ASSETS=$(hack/cluster/cluster.sh assets) || return 1
    export KUBEBUILDER_ASSETS
    (cd test && go test -v -count=1 -timeout=15m ./apiserver/faults)
}

only=${1:-} has_node=true newer=""
need_go
need_haproxy
if [[ -z ${KUBECONFIG:-} ]] && ! reason=$(hack/cluster/cluster.sh check 2>&1); then
    left_out+=("the end-to-end tests were left out: $reason")
    say "Note: ${left_out[*]}"
    has_node=false
fi

if [[ $only != e2e ]]; then
    suite "Unit tests, with real HAProxy" go test ./...
    if newer=$(hack/haproxy.sh); then
        [[ $newer != $(dirname "$(command -v haproxy)") ]] || newer=""
        [[ -z $newer ]] ||
            suite "Those about HAProxy, with that of the default image" env PATH="$newer:$PATH" go test -count=1 ./internal/haproxy/... ./internal/agent
    else
        left_out+=("the tests with the HAProxy of the default image were left out: hack/haproxy.sh says why")
    fi
    suite "Tests of the built programs on a real API server" api_server
    suite "The kubectl plugin" plugin
    suite "Faults of the API server" faults
fi
if $has_node; then
    suite "End-to-end tests on a node" end_to_end
    [[ -z $newer || -n ${KUBECONFIG:-} ]] || suite "Those, with the HAProxy of the default image" end_to_end newer
fi

say "Summary"
printf '  %s\n' "${results[@]}"
if ((${#left_out[@]})); then
    printf '  %s\n' "${left_out[@]}"
    [[ ${CI:-} != true && $only != e2e ]] || exit 1
fi
echo "$((suites - failed)) passed, $failed failed"
((failed == 0))
