#!/usr/bin/env bash
# HAProxy 3.4.7: json_query reads only as far as it has to. Behind what is nested too deep or is no JSON, members are
# absent; before it, they are found.
#
# Expected by most: a document is read or refused as a whole.
# Seen: a member before 20 lists within each other is found, and one behind them is not. It cannot be told from a member
# that is not there.
#
# Our rules put a mark behind the document, and refuse it unless json_query finds the mark.
# shellcheck source=findings/lib.sh
source "$(dirname "$0")/lib.sh"
haproxy_347
start <<'END'
frontend web
    bind unix@DIR/web
    http-request return status 200 content-type text/plain lf-string "%[req.fhdr(x),json_query('\$.a')]-%[req.fhdr(x),json_query('\$.b')]"
END
lists() { printf '%*s' "$1" "" | tr ' ' "$2"; }
ask() { get web http://a/ -H "X: {\"a\":\"1\",\"deep\":$(lists "$1" '[')$(lists "$1" ']'),\"b\":\"2\"}"; }
expect "19 lists" "$(ask 19)" "1-2"
expect "20 lists" "$(ask 20)" "1-"
expect "something else behind" "$(get web http://a/ -H 'X: {"a":"1",b}')" "1-"
