#!/usr/bin/env bash
# Prints the path of the kubeconfig to use: $KUBECONFIG, or else the one-node cluster's.
set -euo pipefail
if [[ -n ${KUBECONFIG:-} ]]; then
    echo "$KUBECONFIG"
else
    "$(dirname "${BASH_SOURCE[0]}")/cluster/cluster.sh" kubeconfig
fi
