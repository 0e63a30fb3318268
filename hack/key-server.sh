#!/usr/bin/env bash
# Installs gateway-key-server of the image IMG on the cluster of KUBECONFIG, and prints its address for the operator's
# flag -key-server. It is the address of its Service: a cluster for tests need not have DNS.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

sed "s|gateway:dev|${IMG:?}|" artifacts/key-server/*.yaml | hack/kubectl.sh apply -f - >&2
address=$(hack/kubectl.sh -n gateway-system get service gateway-key-server -o jsonpath='{.spec.clusterIP}')
hack/kubectl.sh -n gateway-system patch deployment gateway-key-server --type=json \
    -p '[{"op":"add","path":"/spec/template/spec/containers/0/args/-","value":"-name='"$address"'"}]' >&2
hack/kubectl.sh -n gateway-system rollout status deployment/gateway-key-server --timeout=120s >&2
echo "$address:8443"
