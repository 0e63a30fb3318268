#!/usr/bin/env bash
# HAProxy 3.4.7: of two max-age in one Cache-Control, the cache goes by the last; an answer with "Age: 0" is not stored.
#
# Expected by most: the first of two max-age counts, or the answer is stale (RFC 9111, 4.2.1). "Age: 0" is what a cache
# in front of the origin sends with an answer that it has just got, and changes nothing.
# Seen: with "max-age=1, max-age=60" the stored answer is given after two seconds, and with "max-age=60, max-age=1" it is
# not. With "Age: 0", the origin is asked each time.
# shellcheck source=findings/lib.sh
source "$(dirname "$0")/lib.sh"
haproxy_347
start <<'END'
cache store
    total-max-size 1
    max-age 3600
frontend origin
    bind unix@DIR/origin
    http-request return status 200 content-type text/plain hdr cache-control "public, max-age=1, max-age=60" lf-string "%[date(0,us)]" if { path /long-last }
    http-request return status 200 content-type text/plain hdr cache-control "public, max-age=60, max-age=1" lf-string "%[date(0,us)]" if { path /short-last }
    http-request return status 200 content-type text/plain hdr cache-control "public, max-age=60" hdr age 0 lf-string "%[date(0,us)]" if { path /age-0 }
    http-request return status 200 content-type text/plain hdr cache-control "public, max-age=60" hdr age 1 lf-string "%[date(0,us)]" if { path /age-1 }
frontend web
    bind unix@DIR/web
    http-request cache-use store
    http-response cache-store store
    default_backend behind
backend behind
    server origin unix@DIR/origin
END
declare -A first
for path in long-last short-last age-0 age-1; do first[$path]=$(get web "http://a/$path"); done
stored() { [[ $(get web "http://a/$1") == "${first[$1]}" ]] && echo yes || echo no; }
expect "Age: 0 is stored" "$(stored age-0)" "no"
expect "Age: 1 is stored" "$(stored age-1)" "yes"
sleep 2
expect "max-age=1, max-age=60 is given after two seconds" "$(stored long-last)" "yes"
expect "max-age=60, max-age=1 is given after two seconds" "$(stored short-last)" "no"
