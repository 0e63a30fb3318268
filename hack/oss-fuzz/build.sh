#!/usr/bin/env bash
# Builds fuzz targets as OSS-Fuzz runs them, in its image, which has compile_native_go_fuzzer. It imports the packages,
# so programs' targets are left out.
set -euo pipefail
cd "${SRC:?}/gateway"

# What the fuzzers are linked with.
printf 'package version\n\nimport _ "github.com/AdamKorcz/go-118-fuzz-build/testing"\n' >internal/version/fuzz.go
go mod edit -require=github.com/AdamKorcz/go-118-fuzz-build@latest
go mod tidy
hack/fuzz.sh list | while read -r package target; do
    [[ $(go list -f '{{.Name}}' "./$package") != main ]] || continue
    compile_native_go_fuzzer "gateway/$package" "$target" "$(tr / _ <<<"$package")_$target"
done
