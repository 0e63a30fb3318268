#!/usr/bin/env bash
# HAProxy 3.4.7: a request in a backend's queue is never given to a server without maxconn that becomes ready.
#
# Expected by most: a server without a limit takes what waits, at once.
# Seen: one server with maxconn 1 is busy, a second request waits, and a server without maxconn becomes ready. The
# request goes on waiting for the busy one, until `timeout queue` (503). If the ready server has a maxconn, it gets the
# request.
#
# So all servers of a backend should have a maxconn, or none, also those that are added later.
# shellcheck source=findings/lib.sh
source "$(dirname "$0")/lib.sh"
haproxy_347
start <<'END'
frontend slow
    bind unix@DIR/slow
    http-request pause 8s
    http-request return status 200 content-type text/plain string slow
frontend fast
    bind unix@DIR/fast
    http-request return status 200 content-type text/plain string fast
frontend web
    bind unix@DIR/web
    use_backend %[path,field(2,/)]
backend limited
    timeout queue 3s
    server busy unix@DIR/slow maxconn 1
    server idle unix@DIR/fast maxconn 10 disabled
backend mixed
    timeout queue 3s
    server busy unix@DIR/slow maxconn 1
    server idle unix@DIR/fast disabled
END
waits() {
    get web "http://a/$1" -o "$dir/first" &
    until [[ $(cli "show stat" | grep "^$1,busy," | cut -d, -f5) == 1 ]]; do sleep 0.02; done
    get web "http://a/$1" -o /dev/null -w '%{http_code}' >"$dir/second" &
    local second=$!
    until [[ $(cli "show stat" | grep "^$1,BACKEND," | cut -d, -f3) == 1 ]]; do sleep 0.02; done
    cli "set server $1/idle state ready" >/dev/null
    wait "$second"
    cat "$dir/second"
}
expect "a request that waits, with a maxconn at both servers" "$(waits limited)" "200"
expect "with a maxconn at the busy one alone" "$(waits mixed)" "503"
