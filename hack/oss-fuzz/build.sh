#!/usr/bin/env bash
# Builds fuzz targets as OSS-Fuzz runs them, in its image, which has compile_native_go_fuzzer. It imports the packages,
# so programs' targets are left out. A target is compiled with its file alone of the package's tests, with types of its
# own in place of those of testing, and the name of no other in its package begins with its name.
set -euo pipefail
cd "${SRC:?}/gateway"

# What the fuzzers are linked with.
printf 'package version\n\nimport _ "github.com/AdamKorcz/go-118-fuzz-build/testing"\n' >internal/version/fuzz.go
go mod edit -require=github.com/AdamKorcz/go-118-fuzz-build@latest
go mod tidy
hack/fuzz.sh list | while read -r package target; do
    [[ $(go list -f '{{.Name}}' "./$package") != main ]] || continue
    name=$(tr / _ <<<"$package")_$target
    compile_native_go_fuzzer "gateway/$package" "$target" "$name"
    [[ -x $OUT/$name ]] # it only prints that it has found none
done
