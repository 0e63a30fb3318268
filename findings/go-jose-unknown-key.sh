#!/usr/bin/env bash
# go-jose v4.1.8: one key of an unknown type makes the reading of a JSON Web Key Set fail.
#
# Expected by most: keys that a program does not know are ignored, as RFC 7517, 5 says, so that issuers can add new
# types.
# Seen: json.Unmarshal of a JSONWebKeySet fails with "unsupported key type/format". Keys before the unknown one are in
# the set nevertheless, and keys behind it are not.
#
# Our proxies ignore keys at a URL that they cannot use, with a parser of their own.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >go.mod <<'END'
module finding

go 1.24

require github.com/go-jose/go-jose/v4 v4.1.8
END
cat >main.go <<'END'
package main

import (
	"encoding/json"
	"fmt"

	"github.com/go-jose/go-jose/v4"
)

const known = `{"kty":"EC","kid":"a","crv":"P-256","x":"RRBtXB3hOAbYDKm7UnEt_Zr_-ey4whvVOryn3jLg5sQ","y":"MZaSEzCbFdKWdDDLEMNp9n0FRHPpuRWZCM1COgAwcC4"}`

func main() {
	const unknown = `{"kty":"AKP","kid":"b","alg":"ML-DSA-44","pub":"AA"}`
	for _, keys := range []string{known, known + "," + unknown, unknown + "," + known} {
		var set jose.JSONWebKeySet
		err := json.Unmarshal([]byte(`{"keys":[`+keys+`]}`), &set)
		fmt.Println(len(set.Key("a")), err != nil)
	}
}
END
got=$(GOWORK=off GOFLAGS=-mod=mod go run .)
want="1 false
1 true
0 true"
[[ $got == "$want" ]] || {
    echo "changed: got $got" >&2
    exit 1
}
echo "as seen: a set with an unknown type fails, and lacks the keys behind it"
