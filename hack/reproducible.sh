#!/usr/bin/env bash
# Builds all images twice, in two directories, and compares them. What depended on the directory would be compiled anew: with
# "cold", everything is, the second time, which takes some minutes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=hack/lib.sh
source hack/lib.sh

need_go
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# build TREE CACHE: prints the digests of the images of a copy of this tree.
build() {
    mkdir -p "$1"
    git ls-files -z --cached --others --exclude-standard | xargs -0 tar -c --ignore-failed-read 2>/dev/null | tar -x -C "$1"
    (cd "$1" && GOCACHE=$2 hack/images.sh release >/dev/null && cd bin && sha256sum -- *.tar)
}

cache=$(go env GOCACHE)
first=$(build "$dir/one" "$cache")
[[ ${1:-} != cold ]] || cache=$dir/cache
second=$(build "$dir/a/longer/path" "$cache")
echo "$first"
if [[ $first != "$second" ]]; then
    diff <(echo "$first") <(echo "$second") || true
    fail "two builds of the same sources differ"
fi
echo "two builds, the same digests"
