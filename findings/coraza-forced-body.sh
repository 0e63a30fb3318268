#!/usr/bin/env bash
# Coraza v3.8.1: ctl:forceRequestBodyVariable=On makes a form of a body of any type.
#
# Expected: rules see the body in REQUEST_BODY, and ARGS_POST stays empty, as the name says and as ModSecurity does.
# Seen: the CSV "name,price\ncup,3=4" has an argument "name,price\ncup,3" with the value "4". The Core Rule Set sets the
# variable for all bodies that are no form, JSON or XML, so its rules about arguments, such as the one about line breaks
# in their names, refuse harmless files.
#
# Our WAF reads a body of an unknown type as one raw text.
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

const rules = `SecRuleEngine On
SecRequestBodyAccess On
%s
SecRule ARGS_POST_NAMES "@contains cup" "id:2,phase:2,deny"
`

func denied(force string) bool {
	waf, err := coraza.NewWAF(coraza.NewWAFConfig().WithDirectives(fmt.Sprintf(rules, force)))
	if err != nil {
		panic(err)
	}
	tx := waf.NewTransaction()
	tx.ProcessURI("/", "POST", "HTTP/1.1")
	tx.AddRequestHeader("Content-Type", "text/csv")
	if tx.ProcessRequestHeaders() != nil {
		panic("denied by the headers")
	}
	if _, _, err := tx.WriteRequestBody([]byte("name,price\ncup,3=4")); err != nil {
		panic(err)
	}
	interruption, err := tx.ProcessRequestBody()
	if err != nil {
		panic(err)
	}
	return interruption != nil
}

func main() {
	fmt.Println(denied(""), denied(`SecAction "id:1,phase:1,pass,nolog,ctl:forceRequestBodyVariable=On"`))
}
END
got=$(GOWORK=off GOFLAGS=-mod=mod go run . 2>"$dir/log") || {
    cat "$dir/log" >&2
    exit 1
}
[[ $got == "false true" ]] || {
    echo "changed: got $got" >&2
    exit 1
}
echo "as seen: a CSV has arguments of a form if the variable REQUEST_BODY is forced"
