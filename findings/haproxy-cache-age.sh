#!/usr/bin/env bash
# HAProxy 3.4.7: the cache does not count the Age that an answer comes with.
#
# Expected by most: an answer with "Cache-Control: max-age=60" and "Age: 59", from behind another cache, is fresh for
# one second more (RFC 9111, 4.2.3).
# Seen: two seconds later, the stored answer is still given, with "Age: 61" beside "max-age=60".
# shellcheck source=findings/lib.sh
source "$(dirname "$0")/lib.sh"
haproxy_347
start <<'END'
cache store
    total-max-size 1
    max-age 3600
frontend origin
    bind unix@DIR/origin
    http-request return status 200 content-type text/plain hdr cache-control "public, max-age=60" hdr age 59 lf-string "%[date(0,us)]"
frontend web
    bind unix@DIR/web
    http-request cache-use store
    http-response cache-store store
    default_backend behind
backend behind
    server origin unix@DIR/origin
END
first=$(get web http://a/)
sleep 2
expect "the same answer after two seconds" "$([[ $(get web http://a/) == "$first" ]] && echo yes || echo no)" "yes"
expect "it says that it is too old: its Age is above 60" "$(get web http://a/ -D - -o /dev/null | tr -d '\r' | awk 'tolower($1) == "age:" {print ($2 > 60) ? "yes" : "no"}')" "yes"
