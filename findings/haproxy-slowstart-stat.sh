#!/usr/bin/env bash
# HAProxy 3.4.7: slowstart works for a server that is added at run time without health checks, at weight 1, and "show
# stat" does not tell.
#
# Expected by most: slowstart needs checks, since the manual says that it begins when a server was seen as failed. And
# the column weight of "show stat" is what a server gets.
# Seen: a new server with weight 1, the default, and no checks begins with a small part of its share of the requests.
# "show stat" has weight 1 for it from the start. One with weight 100 begins with a few hundredths there, too.
# shellcheck source=findings/lib.sh
source "$(dirname "$0")/lib.sh"
haproxy_347
start <<'END'
frontend web
    bind unix@DIR/web
    default_backend many
frontend old
    bind unix@DIR/old
    http-request return status 200 content-type text/plain string old
frontend new
    bind unix@DIR/new
    http-request return status 200 content-type text/plain string new
backend many
    balance roundrobin
    server old unix@DIR/old
backend heavy
    server old unix@DIR/old weight 100
END
cli "add server many/new unix@$dir/new slowstart 600s" >/dev/null
cli "enable server many/new" >/dev/null
cli "add server heavy/new unix@$dir/new weight 100 slowstart 600s" >/dev/null
cli "enable server heavy/new" >/dev/null
weight() { cli "show stat" | grep "^$1,new," | cut -d, -f19; }
found=0
for _ in {1..80}; do
    if [[ $(get web http://a/) == new ]]; then found=$((found + 1)); fi
done
expect "weight 1 gets less than a quarter of its 40 of 80 requests" "$((found < 10))" "1"
expect "its weight in show stat" "$(weight many)" "1"
expect "weight 100 begins below 50 in show stat" "$(($(weight heavy) < 50))" "1"
