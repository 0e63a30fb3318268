#!/usr/bin/env bash
# Makes the newest release of CHANGELOG.md, with the plugin for two systems and a key for once, and verifies it as a
# stranger does, which makes it again in another directory. Then one byte of each file is changed. What depended on the
# directory would be compiled anew: with "cold", everything is, the second time, which takes some minutes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=hack/lib.sh
source hack/lib.sh

need_go
need openssl openssl
version=$(sed -n 's/^## \(v[0-9]\)/\1/p' CHANGELOG.md | head -n 1)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# A repository with what this tree has now, and the tag.
mkdir "$dir/tree"
git ls-files -z --cached --others --exclude-standard | xargs -0 tar -c --ignore-failed-read 2>/dev/null | tar -x -C "$dir/tree"
in_tree() { git -C "$dir/tree" -c user.name=release -c user.email=release@example.com "$@"; }
in_tree init -q
in_tree add -A
in_tree commit -qm release
in_tree tag "$version"

openssl ecparam -name prime256v1 -genkey -noout -out "$dir/key.pem"
openssl ec -in "$dir/key.pem" -pubout -out "$dir/key.pub" 2>/dev/null
(cd "$dir/tree" && RELEASE_KEY=$dir/key.pem RELEASE_PLATFORMS="linux-amd64 windows-arm64" \
    HAPROXY_IMG=haproxy:3.4@sha256:$(printf '%064d' 0) hack/release.sh "$version" >/dev/null)
mv "$dir/tree/dist" "$dir/release"
cat "$dir/release/SHA256SUMS"
[[ ${1:-} != cold ]] || export GOCACHE=$dir/cache
(cd "$dir/tree" && bin/make-release -verify "$dir/release" -key "$dir/key.pub" 2>"$dir/log") || {
    cat "$dir/log" >&2
    fail "a release cannot be verified"
}

# changed FILE: changes one byte in the middle of it.
changed() {
    local at
    at=$(($(stat -c %s "$1") / 2))
    printf "%b" "\\x$(printf %02x $(($(od -An -tu1 -j "$at" -N 1 "$1") ^ 1)))" | dd of="$1" bs=1 seek="$at" conv=notrunc status=none
}
for file in "$dir"/release/*; do
    changed "$file"
    if output=$("$dir/tree/bin/make-release" -verify "$dir/release" -key "$dir/key.pub" -signed 2>&1) || ! grep -qF "$(basename "$file")" <<<"$output"; then
        fail "a changed byte of $(basename "$file") is not refused by its name: $output"
    fi
    changed "$file"
done
echo "a release that can be verified, and $(find "$dir/release" -type f | wc -l) changes that cannot"
