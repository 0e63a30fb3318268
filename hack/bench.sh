#!/usr/bin/env bash
# Runs all benchmarks, or those whose names are given: go, dataplane, propagation, routes, namespaces, ingresses,
# memory, control, peers. They print tables in Markdown. What one of them starts is gone when it ends; nothing needs the node.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=hack/lib.sh
source hack/lib.sh

# Each step is a function; a new one is added to this list.
steps=(go dataplane propagation routes namespaces ingresses memory control peers)

# The pieces, in one process each. With two files of what go test prints, benchstat compares: `make bench BENCH=go | tee new`.
step_go() {
    go test -run='^$' -bench=. -benchtime=0.3s -benchmem . ./internal/... | grep -v -e 'no test files' -e '^ok' -e '^PASS'
    # The kubectl plugin: its start, and a Gateway of 1,000 routes.
    (cd cmd/kubectl-gateway && go test -run='^$' -bench=. ./internal/command)
}

# What a proxied request costs, beside a static haproxy.cfg, nginx and Caddy.
step_dataplane() {
    need nginx nginx
    need caddy caddy
    (cd test && go run ./bench/dataplane)
}

# From a change to the first request that is answered by it, and what of it is the API server's. ROUTES:CHANGES
propagations=(10:30 1000:4 3000:2)

step_propagation() {
    KUBEBUILDER_ASSETS=$(hack/cluster/cluster.sh assets)
    export KUBEBUILDER_ASSETS
    local run
    for run in "${propagations[@]}"; do
        (cd test && go test ./bench/propagation -run='^$' -bench="/routes=${run%:*}$" -benchtime="${run#*:}x" -timeout=20m) | rows
    done
}

# The same among many HTTPRoutes, with the operator; how long many take from nothing; and a peer's control plane beside.
step_routes() {
    KUBEBUILDER_ASSETS=$(hack/cluster/cluster.sh assets)
    export KUBEBUILDER_ASSETS
    local run
    for run in '^BenchmarkRoutes$:10' '^BenchmarkManyRoutes$:1' '^BenchmarkControlPlanes$:1'; do
        (cd test && go test ./bench/propagation -run='^$' -bench="${run%:*}" -benchtime="${run#*:}x" -timeout=40m) | rows
    done
}

# HTTPRoutes of many namespaces for many Gateways.
step_namespaces() {
    KUBEBUILDER_ASSETS=$(hack/cluster/cluster.sh assets)
    export KUBEBUILDER_ASSETS
    (cd test && go test ./bench/propagation -run='^$' -bench='^BenchmarkManyNamespaces$' -benchtime=1x -timeout=40m) | rows
}

# Ingresses of many namespaces, which the operator serves.
step_ingresses() {
    KUBEBUILDER_ASSETS=$(hack/cluster/cluster.sh assets)
    export KUBEBUILDER_ASSETS
    (cd test && go test ./bench/propagation -run='^$' -bench='^BenchmarkManyIngresses$' -benchtime=1x -timeout=40m) | rows
}

# What an agent and its HAProxy keep in memory for Gateways of several sizes.
step_memory() {
    KUBEBUILDER_ASSETS=$(hack/cluster/cluster.sh assets)
    export KUBEBUILDER_ASSETS
    (cd test && go test ./bench/propagation -run='^$' -bench=Memory -benchtime=1x) | rows
}

# The control plane: the operator and a plain controller on a real API server.
step_control() {
    KUBEBUILDER_ASSETS=$(hack/cluster/cluster.sh assets)
    export KUBEBUILDER_ASSETS
    (cd test && go run ./bench/control)
}

# The same edits with this build, an older one and peers, which are built from modules. What they route to is not there,
# and cannot be reached.
step_peers() {
    local dir benchmark
    dir=$(mktemp -d)
    KUBEBUILDER_ASSETS=$(hack/cluster/cluster.sh assets)
    export KUBEBUILDER_ASSETS PEERS=$dir
    build_older e14b96c
    build_peers
    for benchmark in Peers Sizes; do
        (cd test && isolated go test ./bench/propagation -run='^$' -bench="^Benchmark$benchmark\$" -benchtime=1x -timeout=80m) | rows
    done
    rm -r "$dir"
}

# build_older COMMIT builds what the project was.
build_older() {
    mkdir "$PEERS/$1"
    git archive "$1" | tar -xC "$PEERS/$1"
    (cd "$PEERS/$1" && GOFLAGS=-buildvcs=false go build -o bin/ . ./cmd/gateway-agent)
}

# build_peers builds peers and the stand-in for Envoy. Traefik is built without providers of DNS for ACME, because modules
# of some cannot be had, and with an empty module in place of one that is in its repository alone.
build_peers() {
    local peers=test/bench/peers lego=$PEERS/traefik-modules/lego ext=$PEERS/traefik-modules/ext
    (cd $peers/contour && go build -o "$PEERS/" github.com/projectcontour/contour/cmd/contour)
    (cd $peers/envoy && go build -o "$PEERS/" . github.com/envoyproxy/gateway/cmd/envoy-gateway)
    cp -r $peers/traefik "$PEERS/traefik-modules"
    cp -r "$(cd $peers/contour && go mod download -json github.com/go-acme/lego/v5@v5.4.1 | awk -F'"' '$2 == "Dir" {print $4}')" "$lego"
    chmod -R u+w "$lego"
    rm -r "$lego"/cmd "$lego"/providers/dns/*
    cat >"$lego/providers/dns/dns.go" <<'END'
package dns

import "github.com/go-acme/lego/v5/challenge"

func NewDNSChallengeProviderByName(string) (challenge.Provider, error) { panic("there are none") }
END
    mkdir "$ext"
    echo 'module github.com/traefik/traefik/dynamic/ext' >"$ext/go.mod"
    printf 'package ext\n\ntype HTTP struct{}\n\ntype Router struct{}\n' >"$ext/ext.go"
    (cd "$PEERS/traefik-modules" && go build -o "$PEERS/" github.com/traefik/traefik/v3/cmd/traefik)
}

# isolated COMMAND... runs a command where no packet leaves the machine, with a directory /certs of its own, where Envoy
# Gateway looks for certificates.
isolated() {
    # shellcheck disable=SC2016
    unshare --map-root-user --net --mount bash -ec '
        ip link set lo up
        ip link add own type veth peer other
        ip address add 192.0.2.1/24 dev own
        ip link set own up
        ip link set other up
        ip route add default via 192.0.2.2 # nobody; the API server wants one
        root=$(mktemp -d)
        mount -t tmpfs root "$root"
        for each in /*; do
            if [[ -L $each ]]; then
                cp -P "$each" "$root"
            elif [[ -d $each ]]; then
                mkdir "$root$each"
                mount --rbind "$each" "$root$each"
            fi
        done
        mkdir "$root/certs"
        exec chroot "$root" env --chdir="$PWD" "$@"' - "$@"
}

# rows makes rows of a table of what go test prints, as it comes.
rows() {
    local words row i failed=0
    while read -ra words; do
        case ${words[0]:-} in
        Benchmark*)
            ((${#words[@]} > 2)) || continue
            row=${words[0]#Benchmark}
            row="| ${row%-*} | ${words[1]} | ${words[2]} ${words[3]}"
            for ((i = 4; i + 1 < ${#words[@]}; i += 2)); do row+=", ${words[i]} ${words[i + 1]}"; done
            echo "$row |"
            ;;
        FAIL* | --- | panic*)
            echo "${words[*]}"
            failed=1
            ;;
        esac
    done
    return $failed
}

machine() {
    printf '%s cores: %s; %s; Linux %s\n' "$(nproc)" "$(sed -n 's/^model name\s*: //p' /proc/cpuinfo | head -1)" \
        "$(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release)" "$(uname -r)"
    printf '%s; %s\n' "$(haproxy -v | head -1)" "$(go version)"
}

need_go
need_haproxy
(($# == 0)) || steps=("$@")
machine
for name in "${steps[@]}"; do
    declare -F "step_$name" >/dev/null || fail "there is no benchmark $name"
    say "Benchmark: $name"
    "step_$name"
done
say "All benchmarks have run"
