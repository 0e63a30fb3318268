#!/usr/bin/env bash
# Writes what Go programs are made of, in CycloneDX: hack/sbom.sh DIR PROGRAM... makes DIR/PROGRAM.cdx.json of each. The
# same programs give the same files.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

dir=$1
shift
mkdir -p "$dir"
export CGO_ENABLED=0 GOFLAGS=-buildvcs=false
go build -C hack/sbom -trimpath -o ../../bin/ github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod
for program in "$@"; do
    # The time would be the one thing that differs.
    bin/cyclonedx-gomod bin -json -std -noserial -output - "$program" 2>/dev/null |
        sed '/^    "timestamp":/d' >"$dir/$(basename "$program").cdx.json"
done
