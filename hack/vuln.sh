#!/usr/bin/env bash
# Looks for known vulnerabilities in what the code calls: govulncheck on the product, the plugin, the examples for
# clients and the tests' module. It asks the Go vulnerability database, and fails where that cannot be reached.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=hack/lib.sh
source hack/lib.sh

readonly database=https://vuln.go.dev
modules=(. test cmd/kubectl-gateway cmd/gateway-login cmd/gateway-waf examples/clients hack/cluster/image)

# self_check: an empty answer means nothing unless a report is answered by a finding. This one is on what the pause
# image calls.
self_check() {
    local canary
    canary=$(mktemp -d)
    trap 'rm -rf "$canary"' RETURN
    cat >"$canary/GO-0000-0001.json" <<'END'
{"schema_version": "1.3.1", "id": "GO-0000-0001", "modified": "2026-01-01T00:00:00Z", "summary": "canary",
 "affected": [{"package": {"name": "stdlib", "ecosystem": "Go"}, "ranges": [{"type": "SEMVER", "events": [{"introduced": "0"}]}],
  "ecosystem_specific": {"imports": [{"path": "os/signal", "symbols": ["Notify"]}]}}]}
END
    local output
    if output=$("$check" -C hack/cluster/image -db "file://$canary" ./pause 2>&1) || [[ $output != *GO-0000-0001* ]]; then
        fail "govulncheck does not find what it should: $output"
    fi
}

need curl curl
curl --silent --fail --max-time 5 --output /dev/null "$database/index/db.json" ||
    fail "the vulnerability database $database cannot be reached: run this on a machine that can reach it"
need_go
check=$PWD/bin/govulncheck
go build -C hack/vuln -trimpath -o "$check" golang.org/x/vuln/cmd/govulncheck
self_check
failed=
for module in "${modules[@]}"; do
    echo "== $module"
    "$check" -C "$module" -db "$database" ./... || failed=1
done
[[ -z $failed ]]
