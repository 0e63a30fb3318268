#!/usr/bin/env bash
# HAProxy 3.4.7: with shm-stats-file, a backend has the counters of every other process.
#
# Expected by most: the counters of all that has a guid go on after a reload, which shm-stats-file is for.
# Seen: those of a frontend and of a server go on. Those of a backend with a guid start at 0 in the second process, and
# the third goes on with those of the first.
# shellcheck source=findings/lib.sh
source "$(dirname "$0")/lib.sh"
haproxy_347
start <<'END'
global
    shm-stats-file DIR/stats
frontend web
    guid frontend-web
    bind unix@DIR/web guid-prefix bind-web
    default_backend shop
backend shop
    guid backend-shop
    server one unix@DIR/origin guid server-one
frontend origin
    bind unix@DIR/origin
    http-request return status 200
END

# counters prints how many requests the frontend, the server and the backend had.
counters() {
    cli "show stat" | python3 -c '
import csv, sys
rows = {(row["# pxname"], row["svname"]): row["hrsp_2xx"] for row in csv.DictReader(sys.stdin)}
print(*(rows[key] for key in (("web", "FRONTEND"), ("shop", "one"), ("shop", "BACKEND"))))'
}

# reload starts another process in place of the last one, and waits for its end.
reload() {
    local old=${pids[-1]}
    "$haproxy" -db -f "$dir/haproxy.cfg" -sf "$old" >"$dir/log" 2>&1 &
    pids+=($!)
    wait "$old" || true
}

for _ in {1..5}; do get web http://a/; done
expect "after five requests" "$(counters)" "5 5 5"
reload
expect "after a reload" "$(counters)" "5 5 0"
get web http://a/
expect "after one more request" "$(counters)" "6 6 1"
reload
expect "after another reload" "$(counters)" "6 6 5"
