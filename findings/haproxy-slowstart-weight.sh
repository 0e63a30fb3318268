#!/usr/bin/env bash
# HAProxy 3.4.7: slowstart of a server that is added at run time works without health checks, but only above weight 1.
#
# Expected by most: slowstart needs checks, since the manual says that it begins when a server was seen as failed. And
# it works whatever the weight is, because it is a share of it.
# Seen: without checks, a new server with weight 100 begins with a few hundredths. One with weight 1, the default, has
# the whole weight from the start.
#
# So slow start needs weights such as 100 for all servers.
# shellcheck source=findings/lib.sh
source "$(dirname "$0")/lib.sh"
haproxy_347
start <<'END'
frontend fast
    bind unix@DIR/fast
    http-request return status 200
frontend web
    bind unix@DIR/web
    default_backend many
backend many
    balance roundrobin
    server old unix@DIR/fast weight 100
END
for weight in 100 1; do
    cli "add server many/new$weight unix@$dir/fast weight $weight slowstart 600s" >/dev/null
    cli "enable server many/new$weight" >/dev/null
done
weight() { cli "show stat" | grep "^many,$1," | cut -d, -f19; }
expect "weight 100 begins below 50" "$(($(weight new100) < 50))" "1"
expect "weight 1 begins at" "$(weight new1)" "1"
