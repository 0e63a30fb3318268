#!/usr/bin/env bash
# Generates deepcopy and registration beside the API types, and under generated/app the clientset, listers, informers
# and apply configurations, all with the k8s.io/code-generator version in hack/tools/go.mod.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# With a go.work, the tools of hack/tools would not be known.
export GOWORK=off
# The generators are built by the Go that the project is built with. An older one, as their own go.mod allows, cannot
# read its standard library.
GOTOOLCHAIN=$(go env GOVERSION)
export GOTOOLCHAIN
module=$(go list -m)
codegen=$(cd hack/tools && go mod download k8s.io/code-generator && go list -m -f '{{.Dir}}' k8s.io/code-generator)
output=generated/app
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# kube_codegen.sh installs its generators there; the user's own stay as they are.
export GOBIN=$scratch/bin
# shellcheck source=/dev/null
source "$codegen/kube_codegen.sh"

rm -rf generated
kube::codegen::gen_helpers --boilerplate hack/boilerplate.go.txt api
kube::codegen::gen_register --boilerplate hack/boilerplate.go.txt api

# Only models-schema needs the OpenAPI definitions, so they are in its directory for the time that it runs.
mkdir "$scratch/openapi"
kube::codegen::gen_openapi \
    --output-dir "$scratch/openapi" \
    --output-pkg "$module/hack/models-schema/openapi" \
    --report-filename "$scratch/violations" --update-report \
    --boilerplate hack/boilerplate.go.txt \
    api
# The report also lists upstream's own packages, which are not ours to judge.
if grep -F ",$module/" "$scratch/violations"; then
    echo "update-codegen.sh: the API types break the API rules named above" >&2
    exit 1
fi
cat >"$scratch/definitions.go" <<END
package main

import "$module/hack/models-schema/openapi"

func init() { definitions = openapi.GetOpenAPIDefinitions }
END
cat >"$scratch/overlay.json" <<END
{"Replace": {
    "$PWD/hack/models-schema/definitions.go": "$scratch/definitions.go",
    "$PWD/hack/models-schema/openapi/zz_generated.openapi.go": "$scratch/openapi/zz_generated.openapi.go"
}}
END
go run -overlay "$scratch/overlay.json" ./hack/models-schema >"$scratch/schema.json"

# It looks in each of them for what it generated before.
mkdir -p "$output"/{applyconfiguration,clientset,informers,listers}
kube::codegen::gen_client \
    --with-watch \
    --with-applyconfig \
    --applyconfig-openapi-schema "$scratch/schema.json" \
    --output-dir "$output" \
    --output-pkg "$module/$output" \
    --boilerplate hack/boilerplate.go.txt \
    api

# The object trackers of client-go guess the plurals of kinds, and take that of Gateway to be "gatewaies". No flag changes that.
fake=$output/clientset/versioned/fake/clientset_generated.go
sed -i -e "s#^import (#&\n\t\"$module/clienttest\"#" \
    -e 's#^\tfor _, obj := range objects {#\to = clienttest.WithPlurals(o)\n&#' "$fake"
gofmt -w "$fake"
if [[ $(grep -c WithPlurals "$fake") != 2 ]]; then
    echo "update-codegen.sh: client-gen writes $fake differently now: make both constructors use clienttest.WithPlurals" >&2
    exit 1
fi
