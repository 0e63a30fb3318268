#!/usr/bin/env bash
# Makes the newest release of CHANGELOG.md twice, in two directories, and compares all its files, with the plugin for two systems. What depended on the directory
# would be compiled anew: with "cold", everything is, the second time, which takes some minutes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=hack/lib.sh
source hack/lib.sh

need_go
version=$(sed -n 's/^## \(v[0-9]\)/\1/p' CHANGELOG.md | head -n 1)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# build TREE CACHE: prints the digests of what is made of a copy of this tree.
build() {
    mkdir -p "$1"
    git ls-files -z --cached --others --exclude-standard | xargs -0 tar -c --ignore-failed-read 2>/dev/null | tar -x -C "$1"
    (cd "$1" && GOCACHE=$2 RELEASE_PLATFORMS="linux-amd64 windows-arm64" hack/release.sh "$version" >/dev/null && cat dist/SHA256SUMS)
}

cache=$(go env GOCACHE)
first=$(build "$dir/one" "$cache")
[[ ${1:-} != cold ]] || cache=$dir/cache
second=$(build "$dir/a/longer/path" "$cache")
echo "$first"
if [[ $first != "$second" ]]; then
    diff <(echo "$first") <(echo "$second") || true
    fail "two releases of the same sources differ"
fi
echo "two releases, the same digests"
