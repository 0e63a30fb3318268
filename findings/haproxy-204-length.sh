#!/usr/bin/env bash
# HAProxy 3.4.7: an answer of its own with status 204 says how long it is over HTTP/1.1.
#
# Expected by most: an answer with status 204 has no Content-Length, which RFC 9110 (8.6) forbids there.
# Seen: "http-request return status 204" sends "content-length: 0" over HTTP/1.1, and no such header over HTTP/2. A 204
# of a server passes as it is.
# shellcheck source=findings/lib.sh
source "$(dirname "$0")/lib.sh"
haproxy_347
start <<'END'
frontend web
    bind unix@DIR/web
    bind unix@DIR/web2 proto h2
    http-request return status 204 if { path /own }
    default_backend behind
backend behind
    server origin unix@DIR/origin
END
python3 - "$dir/origin" <<'END' &
import socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
while True:
    connection, _ = listener.accept()
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
    connection.close()
END
pids+=($!)
until [[ -S $dir/origin ]]; do sleep 0.05; done
lengths() { get "$@" -D - -o /dev/null | tr -d '\r' | grep -i '^content-length:' || echo none; }
expect "a 204 of its own over HTTP/1.1" "$(lengths web http://a/own)" "content-length: 0"
expect "a 204 of its own over HTTP/2" "$(lengths web2 http://a/own --http2-prior-knowledge)" "none"
expect "a 204 of a server over HTTP/1.1" "$(lengths web http://a/server)" "none"
