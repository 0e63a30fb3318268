#!/usr/bin/env bash
# Regenerates everything in a copy of the tree and fails if the result differs from what is here, new files included.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
tar -c --exclude=./.git --exclude=./bin . | tar -x -C "$copy"

if ! make -C "$copy" generate manifests api-docs >"$copy/verify.log" 2>&1; then
    cat "$copy/verify.log" >&2
    echo "verify-codegen.sh: the generators failed, see above" >&2
    exit 1
fi

stale=0
for path in api generated artifacts/crd artifacts/rbac docs/reference/api.md; do
    diff -Nru "$path" "$copy/$path" || stale=1
done
if ((stale)); then
    echo "verify-codegen.sh: generated files are not current. Run: make generate manifests api-docs" >&2
    exit 1
fi
echo "Generated files are current."
