#!/usr/bin/env bash
# Looks for known vulnerabilities in what the code calls: govulncheck on the product, the plugin, the examples for clients and the
# tests' module. It asks the Go vulnerability database, or, where that cannot be reached, the copy in hack/vuln/db, whose date it
# prints.
#
#   hack/vuln.sh               check
#   hack/vuln.sh update DIR    make hack/vuln/db anew from DIR, a checkout of github.com/golang/vulndb
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=hack/lib.sh
source hack/lib.sh

readonly live=https://vuln.go.dev copy=$PWD/hack/vuln/db
modules=(. test cmd/kubectl-gateway examples/clients hack/cluster/image)

# update DIR: the reports on all modules that are built, of the commit that is checked out there.
update() {
    rm -f "$copy"/GO-*.json
    for module in "${modules[@]}"; do go -C "$module" list -m all; done |
        go run -C hack/vuln ./snapshot "$(cd "$1" && pwd)/data/osv" "$copy"
    {
        git -C "$1" log -1 --format='%cs %H'
        echo "Reports of the Go vulnerability database, github.com/golang/vulndb, under CC-BY 4.0."
    } >"$copy/SNAPSHOT"
}

# self_check: an empty answer means nothing unless a report is answered by a finding. This one is on what snapshot calls.
self_check() {
    local database
    database=$(mktemp -d)
    trap 'rm -rf "$database"' RETURN
    cat >"$database/GO-0000-0001.json" <<'END'
{"schema_version": "1.3.1", "id": "GO-0000-0001", "modified": "2026-01-01T00:00:00Z", "summary": "canary",
 "affected": [{"package": {"name": "stdlib", "ecosystem": "Go"}, "ranges": [{"type": "SEMVER", "events": [{"introduced": "0"}]}],
  "ecosystem_specific": {"imports": [{"path": "path/filepath", "symbols": ["Glob"]}]}}]}
END
    local output
    if output=$("$check" -C hack/vuln -db "file://$database" ./snapshot 2>&1) || [[ $output != *GO-0000-0001* ]]; then
        fail "govulncheck does not find what it should: $output"
    fi
}

need_go
if [[ ${1:-} == update ]]; then
    update "${2:?a checkout of github.com/golang/vulndb}"
    exit
fi
need curl curl
check=$PWD/bin/govulncheck
go build -C hack/vuln -trimpath -o "$check" golang.org/x/vuln/cmd/govulncheck
self_check
if database=$live && ! curl --silent --fail --max-time 5 --output /dev/null "$live/index/db.json"; then
    database=file://$copy
    echo "The vulnerability database cannot be reached: using the copy of $(head -c 10 "$copy/SNAPSHOT")"
fi
failed=
for module in "${modules[@]}"; do
    echo "== $module"
    "$check" -C "$module" -db "$database" ./... || failed=1
done
[[ -z $failed ]]
