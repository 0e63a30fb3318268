#!/usr/bin/env bash
# HAProxy 3.4.7: `set-var` with an expression that finds nothing keeps the value that the variable has.
#
# Expected by most: the variable is what the expression gives, so it is unset then.
# Seen: `set-var(txn.a) req.hdr(b)` without a header b leaves what was in txn.a. A later rule takes the old value for
# the new one.
#
# Our rules use a new variable for each step that may find nothing.
# shellcheck source=findings/lib.sh
source "$(dirname "$0")/lib.sh"
haproxy_347
start <<'END'
frontend web
    bind unix@DIR/web
    http-request set-var(txn.a) str(old)
    http-request set-var(txn.a) req.hdr(b)
    http-request return status 200 content-type text/plain lf-string "%[var(txn.a)]"
END
expect "with the header" "$(get web http://a/ -H 'B: new')" "new"
expect "without it" "$(get web http://a/)" "old"
