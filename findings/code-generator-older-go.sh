#!/usr/bin/env bash
# k8s.io/code-generator v0.37.2 with a module of Go 1.27, where the Go that is installed is 1.26.8.
#
# Expected by most: the go command switches to the Go that go.mod names, so kube_codegen.sh works as all other commands.
# Seen: kube_codegen.sh builds its generators in its own module, whose go.mod names Go 1.26. So they are of the older Go,
# and they fail to read the standard library of the newer one: "method must have no type parameters".
#
# hack/update-codegen.sh sets GOTOOLCHAIN to the Go of this module first.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export GOWORK=off GOFLAGS=-mod=mod GOTOOLCHAIN=go1.26.8+auto GOBIN=$dir/bin
mkdir -p "$dir/module/api/v1"
cd "$dir/module"
cat >go.mod <<'END'
module example.com/finding

go 1.27.0

tool k8s.io/code-generator/cmd/deepcopy-gen

require k8s.io/code-generator v0.37.2
END
cat >api/v1/doc.go <<'END'
// +k8s:deepcopy-gen=package

package v1

import "math/rand/v2"

type Dice struct{ Sides []int }

func (d Dice) Roll() int { return rand.IntN(len(d.Sides)) }
END
touch header.txt
codegen=$(go mod download -json k8s.io/code-generator@v0.37.2 | sed -n 's/.*"Dir": "\(.*\)",*/\1/p')

# generate reports whether the generators work. In a condition, errexit would not hold for what kube_codegen.sh runs.
generate() {
    # shellcheck disable=SC2016 # it is for the other shell
    if bash -euo pipefail -c 'source "$0/kube_codegen.sh"; kube::codegen::gen_helpers --boilerplate header.txt api' "$codegen" >"$dir/log" 2>&1; then
        echo works
    elif grep -q 'method must have no type parameters' "$dir/log"; then
        echo "cannot read the standard library"
    else
        tail -n 3 "$dir/log"
    fi
}

got="$(generate), $(GOTOOLCHAIN=$(go env GOVERSION) generate)"
[[ $got == "cannot read the standard library, works" ]] || {
    echo "changed: got $got" >&2
    exit 1
}
echo "as seen: generators of an older Go fail, those of the module's Go work"
