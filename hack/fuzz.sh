#!/usr/bin/env bash
# Runs every fuzz target of the product, one after the other, each for $FUZZTIME (30s). What one finds, it leaves in testdata/fuzz
# beside the code, as a test case.
#
# Go counts the time in which it makes an input smaller as fuzzing. By default that is up to a minute for each input, so
# -fuzzminimizetime bounds it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=hack/lib.sh
source hack/lib.sh

need_go
need_haproxy
failed=()
while IFS=: read -r file target; do
    say "$target in $(dirname "$file")"
    go test -run='^$' -fuzz="^$target\$" -fuzztime="${FUZZTIME:-30s}" -fuzzminimizetime=100x "./$(dirname "$file")" || failed+=("$target")
done < <(grep -oE '^func Fuzz[A-Za-z0-9]+' --include='*_test.go' -r internal hack/crd-schema | sed 's/func //' | sort)
((${#failed[@]} == 0)) || fail "failed: ${failed[*]}"
