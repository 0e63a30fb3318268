#!/usr/bin/env bash
# HAProxy 3.4.7: with "compression minsize-res", an answer from the cache that fits one buffer is not compressed.
#
# Expected by most: the size decides, wherever an answer comes from.
# Seen: an answer of 2,000 bytes is compressed when it comes from its server, and not when it comes from the cache, with
# "minsize-res 1000" in the frontend. Without minsize-res, it is compressed both times.
#
# Our configuration has minsize-res in backends, which the cache's answers do not come from.
# shellcheck source=findings/lib.sh
source "$(dirname "$0")/lib.sh"
haproxy_347
printf "%2000s" "" | tr ' ' a >"$dir/2000"
start <<END
cache store
    total-max-size 4
    max-object-size 100000
    max-age 3600
frontend origin
    bind unix@DIR/origin
    http-request return status 200 content-type text/plain hdr cache-control "public, max-age=60" file DIR/2000
frontend limited
    bind unix@DIR/limited
    filter cache store
    filter compression
    compression algo gzip
    compression type text/plain
    compression minsize-res 1000
    http-request cache-use store
    http-response cache-store store
    default_backend behind
cache other
    total-max-size 4
    max-object-size 100000
    max-age 3600
frontend unlimited
    bind unix@DIR/unlimited
    filter cache other
    filter compression
    compression algo gzip
    compression type text/plain
    http-request cache-use other
    http-response cache-store other
    default_backend behind
backend behind
    server origin unix@DIR/origin
END
coding() { get "$1" "http://a/$2" -H "Accept-Encoding: gzip" -D - -o /dev/null | tr -d '\r' | awk 'tolower($1) == "content-encoding:" {print $2}'; }
for web in limited unlimited; do
    expect "$web: the answer of the server" "$(coding $web 2000)" "gzip"
done
expect "limited: the same from the cache" "$(coding limited 2000)" ""
expect "unlimited: the same from the cache" "$(coding unlimited 2000)" "gzip"
