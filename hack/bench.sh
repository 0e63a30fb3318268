#!/usr/bin/env bash
# Runs all benchmarks, or those whose names are given: go, dataplane, propagation, control. They print tables in Markdown. What one of them starts is
# gone when it ends; nothing needs the node.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=hack/lib.sh
source hack/lib.sh

# Each step is a function; a new one is added to this list.
steps=(go dataplane propagation control)

step_go() {
    go test -run='^$' -bench=. -benchmem ./...
    # The kubectl plugin: its start, and a Gateway of 1,000 routes.
    (cd cmd/kubectl-gateway && go test -run='^$' -bench=. ./internal/command)
}

# What a proxied request costs, beside haproxy.cfg by hand, nginx and Caddy.
step_dataplane() {
    need nginx nginx
    need caddy caddy
    (cd test && go run ./bench/dataplane)
}

# From a change to the first request that is answered by it.
step_propagation() {
    KUBEBUILDER_ASSETS=$(hack/cluster/cluster.sh assets)
    export KUBEBUILDER_ASSETS
    (cd test && go test ./bench/propagation -run='^$' -bench=. -benchtime=30x -timeout=20m)
}

# The control plane: the operator and a plain controller on a real API server.
step_control() {
    KUBEBUILDER_ASSETS=$(hack/cluster/cluster.sh assets)
    export KUBEBUILDER_ASSETS
    (cd test && go run ./bench/control)
}

need_go
need haproxy haproxy
(($# == 0)) || steps=("$@")
for name in "${steps[@]}"; do
    declare -F "step_$name" >/dev/null || fail "there is no benchmark $name"
    say "Benchmark: $name"
    "step_$name"
done
