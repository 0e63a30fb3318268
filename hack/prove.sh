#!/usr/bin/env bash
# Runs tools that most clusters have beside the built programs, and these on the oldest and the newest Kubernetes: all
# parts, or those whose names are given: cert-manager, external-dns, argo-rollouts, keda, nodes, kubernetes-1.31,
# kubernetes-1.37, gateway-api-bench. Prints a page with what was measured, which is dist/prove.md, too. A part that fails
# stops no other. Only keda and nodes need the cluster of hack/cluster, each a new one; nodes has three nodes, with
# MetalLB. gateway-api-bench needs GATEWAY_API_BENCH, a folder with a checkout of it; without, it is left out.
# argo-rollouts has a stand-in for its Gateway API plugin, unless ROLLOUTS_PLUGIN is a folder with a checkout of
# github.com/argoproj-labs/rollouts-plugin-trafficrouter-gatewayapi.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=hack/lib.sh
source hack/lib.sh

parts=(cert-manager external-dns argo-rollouts keda nodes kubernetes-1.31 kubernetes-1.37)
[[ -z ${GATEWAY_API_BENCH:-} ]] || parts+=(gateway-api-bench)
project=$PWD
PROVE_TOOLS=$(cached prove)
PROVE_PAGE=$PWD/dist/prove.md
export PROVE_TOOLS PROVE_PAGE

# module_dir NAME MODULE: the folder of the module that the module hack/NAME has.
module_dir() { (cd "hack/$1" && go mod download -json "$2" | awk -F'"' '$2 == "Dir" {print $4}'); }

# copy_module NAME MODULE sets dir to a copy of a module that can be changed.
copy_module() {
    dir=$PROVE_TOOLS/modules/$1
    rm -rf "$dir"
    mkdir -p "$(dirname "$dir")"
    cp -r "$(module_dir "$@")" "$dir"
    chmod -R u+w "$dir"
}

# build_external_dns builds external-dns with one provider of DNS, the webhook, because the module of another one
# (github.com/exoscale/egoscale) cannot be had; and with an older github.com/openshift/api, because its own cannot.
build_external_dns() {
    local dir
    copy_module external-dns sigs.k8s.io/external-dns
    cat >"$dir/provider/factory/provider.go" <<'END'
package factory

import (
	"context"

	"sigs.k8s.io/external-dns/endpoint"
	"sigs.k8s.io/external-dns/pkg/apis/externaldns"
	"sigs.k8s.io/external-dns/provider"
	"sigs.k8s.io/external-dns/provider/webhook"
)

func Select(ctx context.Context, config *externaldns.Config, domains *endpoint.DomainFilter) (provider.Provider, error) {
	made, err := webhook.New(ctx, config, domains)
	return newAliasNormalizingMiddleware(made), err
}
END
    (cd "$dir" && go mod edit -replace=github.com/openshift/api=github.com/openshift/api@v0.0.0-20260810132456-8f52beb625b5)
    CGO_ENABLED=0 GOFLAGS=-mod=mod build "$dir" .
}

# build_keda builds KEDA's operator and metrics server with one scaler, Prometheus: with the other 70, there are twice as
# many packages, of the clients of databases and clouds.
build_keda() {
    local dir
    copy_module keda github.com/kedacore/keda/v2
    find "$dir/pkg/scalers" -maxdepth 1 -name '*.go' ! -name scaler.go ! -name prometheus_scaler.go -delete
    echo 'const externalMetricType = "External"' >>"$dir/pkg/scalers/scaler.go" # from a file that is gone
    sed -i '/switch triggerType {/,/default:/{/switch triggerType {/b;/default:/b;/"prometheus"/,+1b;d}' "$dir/pkg/scaling/scalers_builder.go"
    CGO_ENABLED=0 build "$dir" ./cmd/{operator,adapter}
}

# build DIR PACKAGE...: builds programs of a module, without what debuggers read.
build() {
    (cd "$1" && go build -trimpath -gcflags=all=-dwarf=false -ldflags='-s -w' -o "$PROVE_TOOLS/" "${@:2}")
}

# build_kubernetes MINOR builds the API server of a version of Kubernetes, whose etcd and kubectl are those of all tests,
# and has the tests use it. It has the feature gates that it has by default, as far as it knows those of the tests.
build_kubernetes() {
    local version package ldflags="-s -w" dir=$PROVE_TOOLS/kubernetes-$1
    version=$(sed -n 's/^\tk8s.io\/kubernetes \(v[0-9.]*\) .*$/\1/p' "hack/kubernetes/v$1/go.mod")
    for package in k8s.io/client-go/pkg/version k8s.io/component-base/version; do
        ldflags+=" -X $package.gitVersion=$version -X $package.gitTreeState=clean -X $package.gitMajor=1 -X $package.gitMinor=${1#*.}"
    done
    mkdir -p "$dir"
    ln -sf "$KUBEBUILDER_ASSETS"/{etcd,kubectl} "$dir/"
    (cd "hack/kubernetes/v$1" && CGO_ENABLED=0 GOGC=200 nice go build -trimpath -tags=grpcnotrace -gcflags=all=-dwarf=false -ldflags="$ldflags" \
        -o "$dir/" k8s.io/kubernetes/cmd/kube-apiserver)
    assets=$dir
    # Watch-lists are on by default since 1.34, and in 1.32. 1.31 refuses CRDs of the Gateway API v1.7.
    if ((${1#*.} < 34)); then flags=(-watch-lists=false -gateway-api=v1.6.3); fi
}

# start_cluster starts the cluster of hack/cluster with the operator, until the part ends.
start_cluster() {
    ! hack/cluster/cluster.sh kubeconfig >/dev/null 2>&1 || fail "a cluster is up: end it with hack/cluster/cluster.sh down"
    trap 'cd "$project" && hack/cluster/cluster.sh down' EXIT # tests run in folders of their own
    use_node
    load_images
    make --no-print-directory -s deploy
    go build -C hack/cluster/image -trimpath -o ../../../bin/ .
}

# load_tool NAME USER PROGRAM: makes NAME:dev of a program, which is /NAME there, and loads it into the cluster.
load_tool() {
    bin/image -o "bin/$1.tar" -t "$1:dev" -user "$2" -entrypoint "/$1" "$PROVE_TOOLS/$3:/$1"
    hack/cluster/cluster.sh load "bin/$1.tar"
}

# start_metallb starts MetalLB, by the manifest of its module.
start_metallb() {
    local dir tries=0
    load_tool controller 65534 controller
    load_tool speaker 0 speaker # root, for raw sockets
    dir=$(module_dir metallb go.universe.tf/metallb)
    sed -E 's#image: .*/(controller|speaker):.*#image: \1:dev#' "$dir/config/manifests/metallb-native.yaml" |
        hack/kubectl.sh apply --server-side -f - >/dev/null
    hack/kubectl.sh -n metallb-system rollout status deployment/controller --timeout=120s
    hack/kubectl.sh -n metallb-system rollout status daemonset/speaker --timeout=120s
    until hack/kubectl.sh apply -f test/e2e/testdata/metallb.yaml; do
        ((tries++ < 60)) || fail "MetalLB's webhook does not answer"
        sleep 1
    done
}

# start_keda starts KEDA, by the manifest of its module that has no webhooks. The cluster has no DNS: its metrics server
# knows the operator's Service by its address.
start_keda() {
    local dir ip
    load_tool keda 1000 operator
    load_tool keda-adapter 1000 adapter
    dir=$(module_dir keda github.com/kedacore/keda/v2)
    hack/kubectl.sh kustomize "$dir/config/minimal" |
        sed -E 's#image: .*/keda-metrics-apiserver:.*#image: keda-adapter:dev#; s#image: .*/keda:.*#image: keda:dev#; s#imagePullPolicy: Always#imagePullPolicy: Never#' |
        hack/kubectl.sh apply --server-side -f - >/dev/null
    ip=$(hack/kubectl.sh -n keda get service keda-operator -o 'jsonpath={.spec.clusterIP}')
    hack/kubectl.sh -n keda patch deployment keda-metrics-apiserver -p \
        '{"spec":{"template":{"spec":{"hostAliases":[{"ip":"'"$ip"'","hostnames":["keda-operator.keda.svc.cluster.local"]}]}}}}'
    hack/kubectl.sh -n keda rollout status deployment/keda-operator --timeout=180s
    hack/kubectl.sh -n keda rollout status deployment/keda-metrics-apiserver --timeout=180s
    hack/kubectl.sh wait --for=condition=Available --timeout=120s apiservice/v1beta1.external.metrics.k8s.io
}

# prepare PART builds the tools of a part, and sets the test to run.
prepare() {
    assets=$KUBEBUILDER_ASSETS flags=() others=()
    case $1 in
    cert-manager)
        test=TestCertManager
        build hack/cert-manager . ./acmesolver
        build hack/pebble github.com/letsencrypt/pebble/v2/cmd/{pebble,pebble-challtestsrv}
        ;;
    external-dns)
        test=TestExternalDNS
        build_external_dns
        ;;
    argo-rollouts)
        test=TestRollouts
        CGO_ENABLED=0 build "$(module_dir argo-rollouts github.com/argoproj/argo-rollouts)" ./cmd/rollouts-controller
        CGO_ENABLED=0 build "${ROLLOUTS_PLUGIN:-hack/argo-rollouts}" .
        ;;
    nodes)
        test=TestNodes
        CGO_ENABLED=0 build hack/metallb go.universe.tf/metallb/{controller,speaker}
        NODES=3 start_cluster
        start_metallb
        ;;
    # HorizontalPodAutoscalers from zero are alpha in the cluster's version.
    keda)
        test=TestKEDA
        build_keda
        FEATURE_GATES=HPAScaleToZero=true start_cluster
        start_keda
        PROMETHEUS=$(hack/prometheus.sh)
        export PROMETHEUS
        ;;
    # Peers that cannot be built are missing in the page.
    gateway-api-bench)
        test=TestGatewayAPIBench/gateway others=(traefik contour envoy-gateway)
        need iptables iptables
        build "${GATEWAY_API_BENCH:?names the folder with a checkout of github.com/howardjohn/gateway-api-bench}" \
            ./tests/{attachedroutes,probe,routechange,backendfailover} github.com/howardjohn/pilot-load
        export PEERS=$PROVE_TOOLS/peers
        rm -rf "$PEERS"
        mkdir "$PEERS"
        build_peers &
        wait $! || say "Not all peers can be built"
        ;;
    kubernetes-*)
        test=TestKubernetes
        build_kubernetes "${1#*-}"
        rm -rf "$PROVE_TOOLS/older"
        build_older 33a7bd08 "$PROVE_TOOLS/older" ./cmd/gateway-keys ./cmd/gateway-key-server
        ;;
    *) fail "there is no part $1" ;;
    esac
}

# run PART runs the test of a part, on the cluster or in a network of its own; before it, others that cannot fail it.
run() {
    local go_test=(go test -vet=off -ldflags='-s -w' -count=1 -v -timeout=60m) other
    cd test
    if [[ $1 =~ ^(nodes|keda)$ ]]; then
        TEST_KUBECONFIG=$KUBECONFIG "${go_test[@]}" -tags=slow,nodes -run="^$test\$" ./e2e
        return
    fi
    for other in "${others[@]}"; do
        KUBEBUILDER_ASSETS=$assets isolated "${go_test[@]}" -tags=slow -run="^${test%/*}\$/^$other\$" ./prove || echo "| $other | failed |" >>"$PROVE_PAGE"
    done
    KUBEBUILDER_ASSETS=$assets isolated "${go_test[@]}" -tags=slow -run="^$test\$" ./prove "${flags[@]}"
}

need_go
need_haproxy
(($# == 0)) || parts=("$@")
KUBEBUILDER_ASSETS=$(hack/cluster/cluster.sh assets)
export KUBEBUILDER_ASSETS
mkdir -p dist "$PROVE_TOOLS"
{
    printf '# What make prove has measured\n\n'
    machine | sed 's/$/  /'
} >"$PROVE_PAGE"
results=() failed=0
for part in "${parts[@]}"; do
    printf '\n## %s\n\n| | seen |\n|---|---|\n' "$part" >>"$PROVE_PAGE"
    begin=$SECONDS
    # What one part sets, and its cluster, end with it. It is no condition, because that would go on after an error.
    set +e
    (
        set -e
        say "Building $part"
        prepare "$part"
        say "Running $part"
        run "$part"
    )
    status=$?
    set -e
    result=passed
    ((status == 0)) || result=FAILED failed=1
    results+=("$result  $part ($((SECONDS - begin)) s)")
    printf '\n%s, %d s\n' "$result" $((SECONDS - begin)) >>"$PROVE_PAGE"
done
say "The page: dist/prove.md"
cat "$PROVE_PAGE"
say "Summary"
printf '  %s\n' "${results[@]}"
exit $failed
