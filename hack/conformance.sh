#!/usr/bin/env bash
# Runs the Gateway API's conformance suite on the one-node cluster or TEST_KUBECONFIG's, which has the images
# then. This machine must reach the addresses of Services, so it is never on kind. ONLY=NAME,NAME runs some tests. The
# report is dist/conformance.yaml, of VERSION or the commit.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=hack/lib.sh
source hack/lib.sh

need_go
need_haproxy
if [[ -n ${TEST_KUBECONFIG:-} ]]; then
    use_given TEST_KUBECONFIG
else
    use_node
fi
suite=$(cd test && go mod download sigs.k8s.io/gateway-api sigs.k8s.io/gateway-api/conformance &&
    go list -m -f '{{.Dir}}' sigs.k8s.io/gateway-api/conformance)
crds=$(cd test && go list -m -f '{{.Dir}}' sigs.k8s.io/gateway-api)/config/crd/experimental
load_images
if [[ $cluster != given ]]; then
    say "The suite's echo program"
    CGO_ENABLED=0 go build -modfile=hack/tools/go.mod -trimpath -ldflags='-s -w' -o bin/echo-basic sigs.k8s.io/gateway-api/conformance/echo-basic
    mapfile -t images < <(grep -rhoE '[^ ]+/echo-basic:[^ ]+' "$suite/base" "$suite/tests" | sort -u)
    for image in "${images[@]}"; do
        bin/image -o bin/echo-basic.tar -t "$image" -user 65532 -entrypoint /echo-basic bin/echo-basic:/echo-basic
        hack/cluster/cluster.sh load bin/echo-basic.tar
    done
fi
make --no-print-directory -s deploy
say "The CRDs and the class"
for crd in "$crds"/gateway.networking.k8s.io_*s.yaml; do
    [[ $crd == *_vap_safeupgrades.yaml ]] || hack/kubectl.sh apply --server-side -f "$crd"
done
hack/kubectl.sh apply -f hack/conformance.yaml
say "The key server, for certificates of other namespaces"
address=$(hack/key-server.sh)
hack/kubectl.sh -n gateway-system patch deployment gateway-operator --type=json \
    -p '[{"op":"add","path":"/spec/template/spec/containers/0/args/-","value":"-key-server='"$address"'"}]'
hack/kubectl.sh -n gateway-system rollout status deployment/gateway-operator --timeout=300s
mkdir -p dist
say "The suite"
(cd test && TEST_KUBECONFIG=$KUBECONFIG go test ./nodeconformance -v -count=1 -timeout=60m \
    -ldflags="-X gateway/internal/version.version=${VERSION:-$(git describe --tags --always --dirty)}" -report="$PWD/../dist/conformance.yaml" ${ONLY:+-only="$ONLY"})
