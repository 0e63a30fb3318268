#!/usr/bin/env bash
# Coraza v3.8.1: the texts of a rule are made for each request, though the rule finds nothing.
#
# Expected: "logdata" costs something where a rule matches. It says what was found: %{MATCHED_VAR}.
# Seen: its macros are expanded before the operator runs. Each rule that finds nothing allocates twice more for it, in
# each request. 268 rules of the Core Rule Set 4.25 for requests have such a text.
#
# Our WAF reads the rules without these texts.
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
	"strings"
	"testing"

	"github.com/corazawaf/coraza/v3"
)

const rules = 200

// allocations returns how often a request allocates that none of the rules matches.
func allocations(texts string) float64 {
	var all strings.Builder
	all.WriteString("SecRuleEngine On\n")
	for id := 1; id <= rules; id++ {
		fmt.Fprintf(&all, "SecRule ARGS:word \"@streq other\" \"id:%d,phase:1,pass,log%s\"\n", id, texts)
	}
	waf, err := coraza.NewWAF(coraza.NewWAFConfig().WithDirectives(all.String()))
	if err != nil {
		panic(err)
	}
	return testing.AllocsPerRun(100, func() {
		tx := waf.NewTransaction()
		tx.AddGetRequestArgument("word", "one")
		tx.ProcessRequestHeaders()
		if len(tx.MatchedRules()) > 0 {
			panic("a rule matched")
		}
		_ = tx.Close()
	})
}

func main() {
	without := allocations("")
	with := allocations(",logdata:'found %{MATCHED_VAR} in %{MATCHED_VAR_NAME}'")
	fmt.Printf("%.0f\n", (with-without)/rules)
}
END
got=$(GOWORK=off GOFLAGS=-mod=mod go run . 2>"$dir/log") || {
    cat "$dir/log" >&2
    exit 1
}
[[ $got == 2 ]] || {
    echo "changed: $got allocations more for each rule that finds nothing" >&2
    exit 1
}
echo "as seen: each rule that finds nothing allocates twice for the text of its log"
