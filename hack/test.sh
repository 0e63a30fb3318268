#!/usr/bin/env bash
# hack/test.sh TIER: runs tests, and ends with a summary. The tiers are
#
#   check  what a developer runs all the time: vet and unit tests, with real HAProxy and the race detector
#   test   unit tests, lint (vet is part of it), generated files, the built programs on a real API server, and the
#          end-to-end tests on a node; CI runs this
#   all    also what takes long or asserts a time: faults, arm64, fuzzing, soak, images, vulnerabilities
#   e2e    only the end-to-end tests, all of them
#   soak   only the soak, for 30 minutes or as long as SOAK says
#
# The node is TEST_KUBECONFIG's (with IMG=, ECHO_IMG= and HAPROXY_IMG=), or else one of kind, where kind and
# docker are there, or else the one-node cluster. Where no node can run, the end-to-end tests are left out and the last
# lines say so; with CI=true that fails.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=hack/lib.sh
source hack/lib.sh

# Packages that another clone has compiled serve here, and in the copies of the tree that tests make.
export GOFLAGS="${GOFLAGS:-} -trimpath"

output=$(mktemp) results=$(mktemp)
trap 'rm -f "$output" "$results"' EXIT

# failures OUTPUT COMMAND...: prints the tests of an output that failed, and how to run each package's alone. Where none
# did, that is the command itself.
failures() {
    local output=$1 command="${*:2}" package tests module path
    sed -n 's/^\( *\)--- FAIL: /            \1/p' "$output"
    while read -r package tests; do
        module=.
        for path in test cmd/kubectl-gateway cmd/gateway-login cmd/gateway-waf examples/clients hack/cluster/image; do
            [[ $package != gateway/$path/* ]] || module=$path
        done
        path=.${package#gateway}
        [[ $module == . ]] || path=.${package#gateway/"$module"}
        # shellcheck disable=SC2016 # the reader's shell
        printf '    alone:  PATH=$(hack/haproxy.sh):$PATH%s go test -C %s -count=1%s %s\n' \
            "$([[ ! $package =~ /apiserver|/clustertest|/codegen ]] || echo ' KUBEBUILDER_ASSETS=$(hack/cluster/cluster.sh assets)')" \
            "$module" "${tests:+ -run='^($tests)\$'}" "$path"
    done < <(awk '/^--- FAIL: / {tests = tests (tests ? "|" : "") $3}
        /^ok / {tests = ""}
        /^FAIL\tgateway/ {print $2, tests; tests = ""}' "$output")
    grep -q $'^FAIL\tgateway' "$output" || [[ $(type -t "$2") == function ]] || echo "    alone:  ${command/--no-print-directory -s /}"
}

# suite NAME COMMAND...: runs a suite and remembers how it ended and which tests failed, so that one failure does not hide another.
suite() {
    local name=$1 begin=$SECONDS
    shift
    say "$name"
    if "$@" 2>&1 | tee "$output"; then
        echo "passed  $name ($((SECONDS - begin)) s)" >>"$results"
    else
        {
            echo "FAILED  $name ($((SECONDS - begin)) s)"
            failures "$output" "$@"
        } >>"$results"
    fi
}

# beside COMMAND COMMAND: runs two commands that run suites beside each other. What the second prints follows.
beside() {
    local log second
    log=$(mktemp) second=$(mktemp)
    (
        output=$second
        $2
    ) >"$log" 2>&1 &
    $1
    wait $! || echo "FAILED  $2" >>"$results"
    cat "$log"
    rm "$log" "$second"
}

# unit runs what needs no API server. Go's cache of results does not know of HAProxy, so that each test runs anew:
# -count=1. Most tests that take long wait, so two modules run beside each other, and more tests than there are cores.
unit() {
    need gcc gcc libc6-dev || return 1 # for the race detector
    [[ ${#slow[@]} == 0 ]] || need_chromium || return 1
    export GOGC=400 # collecting garbage was a tenth of the time
    both "units ." other_units
}

# both COMMAND COMMAND: runs two commands beside each other. The output of the second follows.
both() {
    local second failed=
    second=$(mktemp)
    $2 >"$second" 2>&1 &
    $1 || failed=1
    wait $! || failed=1
    cat "$second"
    rm "$second"
    [[ -z $failed ]]
}

# other_units runs the unit tests of all modules but the first.
other_units() {
    local module failed=
    # These ask hundreds of questions, each of which compiles schemas or tries all rules of a WAF: with the race detector,
    # that takes minutes.
    unit_tests cmd/kubectl-gateway ./internal/command ./internal/try || failed=1
    unit_tests cmd/gateway-waf ./internal/engine || failed=1
    for module in cmd/kubectl-gateway cmd/gateway-login cmd/gateway-waf test examples/clients hack/cluster/image; do
        units "$module" || failed=1
    done
    [[ -z $failed ]]
}

# units MODULE: runs the unit tests of a module, with the race detector if a package may do several things at once: it
# imports sync, or context. The detector takes pure packages several times as long, and it sees nothing of HAProxy.
units() {
    local all group failed=
    all=$(unit_packages "$1") || return 1
    for group in race plain; do
        # shellcheck disable=SC2046 # each line is an argument
        unit_tests "$1" $(awk -v group="$group" '
            {kind = / (sync|sync\/atomic|context)( |$)/ ? "race" : "plain"}
            kind == group {if (!n++ && group == "race") print "-race"; print $1}' <<<"$all") || failed=1
    done
    [[ -z $failed ]]
}

# unit_tests MODULE [-race] [PACKAGE...]: runs tests of a module, if there are any.
unit_tests() {
    [[ $# == 1 ]] || (cd "$1" && go_test -shuffle=on -count=1 -parallel=4 -timeout=20m "${slow[@]}" "${@:2}")
}

# go_test ARGUMENT...: runs go test, without what vet or lint does, and with smaller binaries.
go_test() { go test -vet=off -ldflags='-s -w' "$@"; }

# unit_packages MODULE: prints the packages whose tests need no API server, each with what it imports. internal/load
# sends as much as it can, and fails where answers are late, as they are beside other tests.
unit_packages() {
    local others='^gateway/test/(apiserver|bench|codegen|e2e|internal/load|nodeconformance|prove)|/clustertest |/kubectl-gateway/internal/(command|try) |^gateway/cmd/gateway-waf/internal/engine '
    [[ ${#slow[@]} == 0 ]] || others+='|/soak ' # which then needs a node
    (cd "$1" && go list "${slow[@]}" -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{join .Imports " "}}{{end}}' ./...) | awk -v others="$others" '$0 !~ others'
}

# These tests, too, wait most of the time, so more packages run at once than there are cores. Those that take longest
# begin.
api_server() {
    assets || return 1
    (cd test && go_test -count=1 -p=3 -parallel=4 -timeout=120m "${slow[@]}" ./apiserver/{gatewayapi,tenants,...} ./codegen/... ./internal/load)
}

assets() {
    KUBEBUILDER_ASSETS=$(hack/cluster/cluster.sh assets) || return 1
    export KUBEBUILDER_ASSETS
}

# Kubernetes before 1.34 has no watch-lists, so agents start otherwise. There, the CRDs of the Gateway API are older, too.
older_cluster() {
    (cd test && go_test -count=1 -timeout=10m ./apiserver/gatewayapi -run='^TestGatewayAPI$' -watch-lists=false -gateway-api=v1.6.3) &&
        (cd test && go_test -count=1 -timeout=10m ./apiserver/agent -watch-lists=false)
}

# A Gateway that a few namespaces share, with an API server that is killed. It fails if a pod misses an edit, or if the
# API server refuses requests because there are too many.
shared_gateway() {
    BUILDS="by-namespace cluster-wide" hack/bench.sh namespaces &&
        BUILDS="by-namespace cluster-wide" WATCH_LISTS=false PODS=3 hack/bench.sh namespaces
}

plugin() {
    (cd cmd/kubectl-gateway && go_test -count=1 -timeout=10m "${slow[@]}" ./internal/clustertest)
}

# two_clusters runs two suites that have an API server each.
two_clusters() {
    assets || return 1
    both plugin older_cluster
}

# end_to_end needs a node. Most of the time these tests wait, so more run at once than there are cores.
end_to_end() {
    deploy || return 1
    (cd test && go_test -v -count=1 -parallel=4 -timeout=40m "${slow[@]}" ./e2e/...)
}

# soak draws its picture into dist/soak.svg.
soak() {
    deploy || return 1
    mkdir -p dist
    SOAK_PICTURE=$PWD/dist/soak.svg
    export SOAK_PICTURE
    (cd test && go_test -v -count=1 -timeout=0 -tags=slow -run=TestSoak ./soak)
}

# deploy brings the images and the operator to the node.
deploy() {
    use_cluster TEST_KUBECONFIG || return 1
    load_images || return 1
    make --no-print-directory -s deploy || return 1
    export TEST_KUBECONFIG=$KUBECONFIG
}

on_node() {
    local reason
    if [[ -n ${TEST_KUBECONFIG:-} ]] || has_kind || reason=$(hack/cluster/cluster.sh check 2>&1); then
        suite "$@"
    else
        echo "left out  $1: $reason" >>"$results"
        say "Note: left out: $1: $reason"
    fi
}

servers() { suite "Built programs on a real API server" api_server; }
others() { suite "The kubectl plugin, and the Gateway API in an older cluster, on real API servers" two_clusters; }
node() { on_node "End-to-end tests on a node" end_to_end; }

tier=${1:-}
slow=()
[[ $tier =~ ^(check|test)$ ]] || slow=(-tags=slow)
need_go
need_haproxy
case $tier in
check)
    suite "Vet" make --no-print-directory -s vet
    ;;&
check | test | all)
    suite "Unit tests, with real HAProxy" unit
    ;;&
test | all)
    suite "Lint" make --no-print-directory -s lint
    suite "Commit messages" hack/verify-commits.sh
    suite "Generated files" make --no-print-directory -s verify
    ;;&
test)
    assets || exit 1 # once, before both look for them
    beside servers others
    ;;&
all) # tests of times, too, so one suite after the other
    servers
    others
    ;;&
test | all | e2e) # requests under load: nothing runs beside it
    node
    ;;&
all)
    suite "A Gateway that namespaces share" shared_gateway
    suite "Unit tests as arm64" hack/arm64.sh
    suite "Fuzzing" hack/fuzz.sh
    suite "Release, made twice" hack/reproducible.sh
    suite "Known vulnerabilities" hack/vuln.sh
    ;;&
all | soak)
    on_node "Soak" soak
    ;;&
check | test | all | e2e | soak) ;;
*) fail "there is no tier \"$tier\": check, test, all, e2e or soak" ;;
esac

say "Summary"
sed 's/^/  /' "$results"
ended() { grep -c "^$1" "$results" || true; }
failed=$(ended FAILED)
echo "$(ended passed) passed, $failed failed"
((failed == 0)) && [[ ${CI:-} != true || $(ended 'left out') == 0 ]]
