#!/usr/bin/env bash
# Runs all benchmarks, or those whose names are given: go, dataplane, trace, waf, propagation, routes, namespaces, hosts,
# ingresses, memory, control, peers. They print tables in Markdown. What one of them starts is gone when it ends;
# nothing needs the node.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=hack/lib.sh
source hack/lib.sh

# Each step is a function; a new one is added to this list.
steps=(go dataplane trace waf propagation routes namespaces hosts ingresses memory control peers)

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

# What "kubectl gateway trace" costs while it asks once a second: a turn takes about one. It fails above 5 %.
step_trace() {
    (cd test && go run ./bench/dataplane -trace -rounds=24 -requests=10000)
}

# What the filter WAF costs, beside nginx with ModSecurity and the same rules. That nginx is Debian's, in the cache.
step_waf() {
    local dir
    dir=$(cached modsecurity)
    [[ -d $dir ]] || fetch_debian "$dir" libnginx-mod-http-modsecurity forky || fail "there is no ModSecurity in a Debian archive"
    with_libraries "$dir" nginx "-g 'load_module $dir/usr/lib/nginx/modules/ngx_http_modsecurity_module.so;'"
    (cd test && PATH=$dir/bin:$PATH go run ./bench/dataplane -waf -connections=1 -rounds=12 -requests=60 -warmup=10)
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

# The same among many HTTPRoutes, with the operator; and how long many take from nothing, of one namespace or of many.
step_routes() {
    KUBEBUILDER_ASSETS=$(hack/cluster/cluster.sh assets)
    export KUBEBUILDER_ASSETS
    local run
    for run in Routes:10 ManyRoutes:1 ManyNamespaces:1; do
        (cd test && go test ./bench/propagation -run='^$' -bench="^Benchmark${run%:*}\$" -benchtime="${run#*:}x" -timeout=40m) | rows
    done
}

# A Gateway that NAMESPACES namespaces share, with PODS pods, the numbers one after the other. BUILDS are an older
# commit and both ways in which this one watches, each on an API server of its own, which has watch-lists unless
# WATCH_LISTS is false. The last table has ratios to the first.
step_namespaces() {
    local dir build failed=0
    dir=$(mktemp -d)
    KUBEBUILDER_ASSETS=$(hack/cluster/cluster.sh assets)
    export KUBEBUILDER_ASSETS PEERS=$dir
    for build in ${BUILDS:-18240870 by-namespace cluster-wide}; do
        [[ $build != [0-9]* ]] || build_older "$build" "$PEERS/$build"
        (cd test && isolated go test ./bench/propagation -run='^$' -bench="^BenchmarkShared\$/^$build\$" -benchtime=1x -timeout=120m -watch-lists="${WATCH_LISTS:-true}") |
            tee -a "$dir/rows" | rows || failed=1
    done
    beside "$dir/rows"
    rm -r "$dir"
    return $failed
}

# HOSTS hosts with certificates, in SETS ListenerSets of NAMESPACES namespaces, at one Gateway with PODS pods. NEW more
# come one after the other, and BURST at once.
step_hosts() {
    KUBEBUILDER_ASSETS=$(hack/cluster/cluster.sh assets)
    export KUBEBUILDER_ASSETS
    (cd test && isolated go test ./bench/propagation -run='^$' -bench='^BenchmarkHosts$' -benchtime=1x -timeout=180m) | rows
}

# beside FILE makes a table of what go test has printed: a row for each metric, and a column for each build.
beside() {
    awk '
        $1 ~ /^BenchmarkShared\// && NF > 2 {
            split($1, name, "/")
            build = name[2]
            scenario = substr($1, length(name[1] build) + 3)
            sub(/-[0-9]+$/, "", scenario)
            if (!seen[build]++) builds[++n] = build
            for (i = 3; i < NF; i += 2) {
                row = scenario " | " $(i + 1)
                if (!there[row]++) all[++m] = row
                value[row, build] = $i
            }
        }
        END {
            printf "| scenario | |"
            for (j = 1; j <= n; j++) printf " %s |", builds[j]
            printf "\n|---|---|"
            for (j = 1; j <= n; j++) printf "---|"
            print ""
            for (i = 1; i <= m; i++) {
                printf "| %s |", all[i]
                for (j = 1; j <= n; j++) {
                    printf " %s", value[all[i], builds[j]]
                    first = value[all[i], builds[1]]
                    if (j > 1 && first > 0) printf " (%.2f)", value[all[i], builds[j]] / first
                    printf " |"
                }
                print ""
            }
        }' "$1"
}

# Ingresses of many namespaces, which the operator serves.
step_ingresses() {
    KUBEBUILDER_ASSETS=$(hack/cluster/cluster.sh assets)
    export KUBEBUILDER_ASSETS
    (cd test && go test ./bench/propagation -run='^$' -bench='^BenchmarkManyIngresses$' -benchtime=1x -timeout=40m) | rows
}

# What an agent and its HAProxy keep in memory for Gateways of several sizes, and with an operator for many HTTPRoutes.
step_memory() {
    KUBEBUILDER_ASSETS=$(hack/cluster/cluster.sh assets)
    export KUBEBUILDER_ASSETS
    (cd test && go test ./bench/propagation -run='^$' -bench=Memory -benchtime=1x -timeout=40m) | rows
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
    build_older e14b96c "$PEERS/e14b96c"
    build_peers
    for benchmark in Peers Sizes; do
        (cd test && isolated go test ./bench/propagation -run='^$' -bench="^Benchmark$benchmark\$" -benchtime=1x -timeout=80m) | rows
    done
    rm -r "$dir"
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
        FAIL* | --- | panic* | *.go:[0-9]*:)
            echo "${words[*]}"
            [[ ${words[0]} == *: ]] || failed=1
            ;;
        esac
    done
    return $failed
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
