#!/usr/bin/env bash
# HAProxy 3.4.7: with `ssl-f-use`, the last certificate is the default one; in a crt-list, it is the first.
#
# Expected by most: `ssl-f-use` lines in a frontend are the same as lines of a crt-list, so the first is what clients
# get that ask for no name, or for an unknown one.
# Seen: such a client gets the last one.
#
# Our proxies use a crt-list.
# shellcheck source=findings/lib.sh
source "$(dirname "$0")/lib.sh"
haproxy_347
for name in one two three; do
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "/CN=$name" -addext "subjectAltName=DNS:$name.test" \
        -keyout "$dir/$name.key" -out "$dir/$name.crt" 2>/dev/null
    cat "$dir/$name.crt" "$dir/$name.key" >"$dir/$name.pem"
    echo "$dir/$name.pem" >>"$dir/list"
done
start <<'END'
frontend lines
    bind unix@DIR/lines ssl
    ssl-f-use crt DIR/one.pem
    ssl-f-use crt DIR/two.pem
    ssl-f-use crt DIR/three.pem
    http-request return status 200
frontend list
    bind unix@DIR/list.sock ssl crt-list DIR/list
    http-request return status 200
END
default() { openssl s_client -unix "$dir/$1" -noservername </dev/null 2>/dev/null | openssl x509 -noout -subject | sed 's/.*CN *= *//'; }
expect "the default of a crt-list" "$(default list.sock)" "one"
expect "the default of ssl-f-use" "$(default lines)" "three"
