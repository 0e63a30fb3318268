#!/usr/bin/env bash
# Runs kubectl against $KUBECONFIG's cluster, or else against the one-node cluster, whose kubectl is used if there is no other.
set -euo pipefail
hack=$(dirname "${BASH_SOURCE[0]}")
kubectl=$(command -v kubectl || echo "$("$hack/cluster/cluster.sh" assets)/kubectl")
KUBECONFIG=$("$hack/kubeconfig.sh") exec "$kubectl" "$@"
