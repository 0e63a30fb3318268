#!/usr/bin/env bash
# Lets a Gateway on the one-node cluster change all the time, for 30 minutes or as long as SOAK says, and fails if memory,
# descriptors or goroutines grow. SOAK=10m hack/soak.sh is enough to see a leak that is not small.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=hack/lib.sh
source hack/lib.sh

need_go
hack/cluster/cluster.sh up
images=$(hack/images.sh)
eval "$images"
make --no-print-directory -s deploy
KUBECONFIG=$(hack/cluster/cluster.sh kubeconfig)
export KUBECONFIG SOAK=${SOAK:-30m}
cd test
exec go test -v -count=1 -timeout=0 -run=TestSoak ./soak
