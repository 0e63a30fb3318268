#!/usr/bin/env bash
# Coraza v3.8.1: @pm looks for "A|42|C" as it is written.
#
# Expected: it looks for "ABC". The comment of the operator, and so the reference made of it, says that it reads such
# bytes in hexadecimal, as ModSecurity does.
# Seen: a rule with "@pm A|42|C" matches "A|42|C", and never "ABC". Nothing warns, so a rule that comes from ModSecurity
# does nothing.
#
# Our WAF refuses words with "|" in rules of users.
set -euo pipefail
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
cd "$dir"
cat >go.mod <<'END'
module finding

go 1.25

require github.com/corazawaf/coraza/v3 v3.8.1
END
cat >main.go <<'END'
package main

import (
	"fmt"

	"github.com/corazawaf/coraza/v3"
)

func denied(words, value string) bool {
	rule := "SecRule ARGS:word \"@pm " + words + "\" \"id:1,phase:1,deny\"\n"
	waf, err := coraza.NewWAF(coraza.NewWAFConfig().WithDirectives("SecRuleEngine On\n" + rule))
	if err != nil {
		panic(err)
	}
	tx := waf.NewTransaction()
	tx.AddGetRequestArgument("word", value)
	return tx.ProcessRequestHeaders() != nil
}

func main() {
	fmt.Println(denied("ABC", "ABC"), denied("A|42|C", "ABC"), denied("A|42|C", "A|42|C"))
}
END
got=$(GOWORK=off GOFLAGS=-mod=mod go run . 2>"$dir/log") || {
    cat "$dir/log" >&2
    exit 1
}
[[ $got == "true false true" ]] || {
    echo "changed: got $got" >&2
    exit 1
}
echo "as seen: bytes in hexadecimal are looked for as they are written"
