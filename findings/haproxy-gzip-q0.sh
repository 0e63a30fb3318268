#!/usr/bin/env bash
# HAProxy 3.4.7: "Accept-Encoding: gzip;q=0, *" gets gzip.
#
# Expected by most: "gzip;q=0" refuses gzip, and "*" is any other coding (RFC 9110, 12.5.3).
# Seen: "*" includes gzip, and the answer is compressed. "gzip;q=0" alone is not.
# shellcheck source=findings/lib.sh
source "$(dirname "$0")/lib.sh"
haproxy_347
start <<END
frontend origin
    bind unix@DIR/origin
    http-request return status 200 content-type text/plain string "$(printf '%2000s' "" | tr ' ' a)"
frontend web
    bind unix@DIR/web
    filter compression
    compression algo gzip
    compression type text/plain
    default_backend behind
backend behind
    server origin unix@DIR/origin
END
coding() { get web http://a/ -H "Accept-Encoding: $1" -D - -o /dev/null | tr -d '\r' | awk 'tolower($1) == "content-encoding:" {print $2}'; }
expect "gzip" "$(coding gzip)" "gzip"
expect "gzip with q=0" "$(coding 'gzip;q=0')" ""
expect "the same, and *" "$(coding 'gzip;q=0, *')" "gzip"
