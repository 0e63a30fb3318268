#!/usr/bin/env bash
# Runs every fuzz target of the product, one after the other, each for $FUZZTIME (30s). What one finds, it leaves in testdata/fuzz
# beside the code, as a test case.
#
# Go counts the time in which it makes an input smaller as fuzzing. By default that is up to a minute for each input, so
# -fuzzminimizetime bounds it.
#
# With the argument "list", it prints the targets. hack/oss-fuzz builds them for OSS-Fuzz.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=hack/lib.sh
source hack/lib.sh

# targets prints a line of package and function for each.
targets() { grep -oE '^func Fuzz[A-Za-z0-9]+' --include='*_test.go' -r internal hack/crd-schema | sed -E 's|/[^/]*:func | |' | sort; }
[[ ${1:-} != list ]] || { targets && exit; }

need_go
need_haproxy
failed=()
while read -r package target; do
    say "$target in $package"
    go test -run='^$' -fuzz="^$target\$" -fuzztime="${FUZZTIME:-30s}" -fuzzminimizetime=100x "./$package" || failed+=("$target")
done < <(targets)
((${#failed[@]} == 0)) || fail "failed: ${failed[*]}"
