#!/usr/bin/env bash
# Runs tools that most clusters have beside the built programs, and these on the oldest and the newest Kubernetes: all
# parts, or those whose names are given: cert-manager, external-dns, argo-rollouts, nodes, kubernetes-1.31,
# kubernetes-1.37, gateway-api-bench. Prints a page with what was measured, which is dist/prove.md, too. Only nodes needs
# the cluster of hack/cluster, of which it makes one of three nodes, with MetalLB. gateway-api-bench needs
# GATEWAY_API_BENCH, a folder with a checkout of it; without, it is left out.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=hack/lib.sh
source hack/lib.sh

parts=(cert-manager external-dns argo-rollouts nodes kubernetes-1.31 kubernetes-1.37)
[[ -z ${GATEWAY_API_BENCH:-} ]] || parts+=(gateway-api-bench)
PROVE_TOOLS=$(cached prove)
PROVE_PAGE=$PWD/dist/prove.md
export PROVE_TOOLS PROVE_PAGE

# build_external_dns builds external-dns with one provider of DNS, the webhook, because the module of another one
# (github.com/exoscale/egoscale) cannot be had; and with an older github.com/openshift/api, because its own cannot.
build_external_dns() {
    local dir=$PROVE_TOOLS/modules/external-dns
    rm -rf "$dir"
    mkdir -p "$(dirname "$dir")"
    cp -r "$(cd hack/external-dns && go mod download -json sigs.k8s.io/external-dns | awk -F'"' '$2 == "Dir" {print $4}')" "$dir"
    chmod -R u+w "$dir"
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

# start_nodes starts three nodes with the operator and MetalLB, by the manifest of its module.
start_nodes() {
    local program dir images=() as=() tries=0
    ! hack/cluster/cluster.sh kubeconfig >/dev/null 2>&1 || fail "a cluster is up: end it with hack/cluster/cluster.sh down"
    trap 'hack/cluster/cluster.sh down' EXIT
    NODES=3 use_node
    load_images
    make --no-print-directory -s deploy
    go build -C hack/cluster/image -trimpath -o ../../../bin/ .
    for program in controller speaker; do
        # As root, for raw sockets.
        as=(-user 65534)
        [[ $program == controller ]] || as=(-user 0)
        bin/image -o "bin/metallb-$program.tar" -t "metallb-$program:dev" "${as[@]}" -entrypoint "/$program" "$PROVE_TOOLS/$program:/$program"
        images+=("bin/metallb-$program.tar")
    done
    hack/cluster/cluster.sh load "${images[@]}"
    dir=$(cd hack/metallb && go list -m -f '{{.Dir}}' go.universe.tf/metallb)
    sed -E 's#image: .*/(controller|speaker):.*#image: metallb-\1:dev#' "$dir/config/manifests/metallb-native.yaml" |
        hack/kubectl.sh apply --server-side -f - >/dev/null
    hack/kubectl.sh -n metallb-system rollout status deployment/controller --timeout=120s
    hack/kubectl.sh -n metallb-system rollout status daemonset/speaker --timeout=120s
    until hack/kubectl.sh apply -f test/e2e/testdata/metallb.yaml; do
        ((tries++ < 60)) || fail "MetalLB's webhook does not answer"
        sleep 1
    done
}

# prepare PART builds the tools of a part, and sets the test to run. The Gateway API plugin of Argo Rollouts cannot be
# had as a module: the test has a stand-in.
prepare() {
    assets=$KUBEBUILDER_ASSETS flags=()
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
    argo-rollouts) test=TestRollouts ;;
    nodes)
        test=TestNodes
        CGO_ENABLED=0 build hack/metallb go.universe.tf/metallb/{controller,speaker}
        start_nodes
        ;;
    # Its tests of ListenerSets are not run: they make the older kind XListenerSet.
    gateway-api-bench)
        test=TestGatewayAPIBench
        need iptables iptables
        build "${GATEWAY_API_BENCH:?names the folder with a checkout of github.com/howardjohn/gateway-api-bench}" \
            ./tests/{attachedroutes,probe,routechange,backendfailover} github.com/howardjohn/pilot-load
        ;;
    kubernetes-*)
        test=TestKubernetes
        build_kubernetes "${1#*-}"
        ;;
    *) fail "there is no part $1" ;;
    esac
}

# run PART runs the test of a part: on the nodes, or in a network of its own.
run() {
    local go_test=(go test -vet=off -ldflags='-s -w' -count=1 -v -timeout=60m -run="^$test\$")
    cd test
    if [[ $1 == nodes ]]; then
        TEST_KUBECONFIG=$KUBECONFIG "${go_test[@]}" -tags=slow,nodes ./e2e
    else
        KUBEBUILDER_ASSETS=$assets isolated "${go_test[@]}" -tags=slow ./prove "${flags[@]}"
    fi
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
failed=0
for part in "${parts[@]}"; do
    say "Building $part"
    prepare "$part"
    say "Running $part"
    printf '\n## %s\n\n| | seen |\n|---|---|\n' "$part" >>"$PROVE_PAGE"
    if ! (run "$part"); then
        failed=1
        printf '\nFAILED\n' >>"$PROVE_PAGE"
    fi
done
say "The page: dist/prove.md"
cat "$PROVE_PAGE"
exit $failed
