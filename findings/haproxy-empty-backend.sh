#!/usr/bin/env bash
# HAProxy 3.4.7: a backend without a usable server answers 503 at once, whatever `timeout queue` is. A rule can wait.
#
# Expected by most: requests wait in the queue until `timeout queue`, so a server that is added soon gets them.
# Seen: 503 within a second with `timeout queue 20s`. With several rules `http-request pause 2s if { nbsrv eq 0 }` in
# the backend, the request waits, and gets the answer of a server that was added at run time meanwhile.
#
# So a backend that starts on demand needs such rules.
# shellcheck source=findings/lib.sh
source "$(dirname "$0")/lib.sh"
haproxy_347
start <<'END'
frontend fast
    bind unix@DIR/fast
    http-request return status 200 content-type text/plain string fast
frontend web
    bind unix@DIR/web
    use_backend %[path,field(2,/)]
backend empty
    balance roundrobin
    timeout queue 20s
backend waiting
    balance roundrobin
    timeout queue 20s
    http-request pause 2s if { nbsrv eq 0 }
    http-request pause 2s if { nbsrv eq 0 }
    http-request pause 2s if { nbsrv eq 0 }
    http-request pause 2s if { nbsrv eq 0 }
    http-request pause 2s if { nbsrv eq 0 }
END
seconds=$SECONDS
expect "without a server" "$(get web http://a/empty -o /dev/null -w '%{http_code}')" "503"
expect "seconds until then, at most one" "$((SECONDS - seconds <= 1))" "1"
get web http://a/waiting -o /dev/null -w '%{http_code}' >"$dir/waiting" &
request=$!
until [[ $(cli "show stat" | grep "^waiting,BACKEND," | cut -d, -f5) == 1 ]]; do sleep 0.02; done
cli "add server waiting/new unix@$dir/fast" >/dev/null
cli "enable server waiting/new" >/dev/null
wait "$request"
expect "with a pause, and a server that comes" "$(cat "$dir/waiting")" "200"
