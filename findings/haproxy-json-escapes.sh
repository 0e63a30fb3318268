#!/usr/bin/env bash
# HAProxy 3.4.7: json_query decodes \u00e9 to one byte of Latin-1, and finds no string with \/ or a higher \u.
#
# Expected by most: "\u00e9" is the two bytes of UTF-8, as where the é is not escaped. "\/" is "/", which PHP writes by
# default. Python writes all of Unicode as \u.
# Seen: the byte E9 alone. A string with \/ or with \u0100 and above is not found, as if the member were absent.
#
# Our rules have such texts read by a program first.
# shellcheck source=findings/lib.sh
source "$(dirname "$0")/lib.sh"
haproxy_347
start <<'END'
frontend web
    bind unix@DIR/web
    http-request set-var(txn.found) req.hdr(x),json_query('$.a')
    http-request return status 200 content-type text/plain lf-string "%[var(txn.found),hex]" if { var(txn.found) -m found }
    http-request return status 404
END
ask() { get web http://a/ -H "X: {\"a\":\"$1\"}" -w '%{http_code}'; }
expect "an e with an accent in UTF-8" "$(ask $'\303\251')" "C3A9200"
expect "the same as an escape" "$(ask '\u00e9')" "E9200"
expect "a slash with a backslash" "$(ask 'a\/b')" "404"
expect "a character beyond Latin-1" "$(ask '\u4f60')" "404"
