#!/usr/bin/env bash
# Builds the images without docker and loads them into the one-node cluster: the operator and agent, the echo backend of the
# example, and HAProxy from this machine's package. Their tags come from their content, so that deploying them rolls out what
# has changed and nothing else. Prints the names, for eval.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=hack/lib.sh
source hack/lib.sh

need_go
need haproxy haproxy
make --no-print-directory -s build >&2
export CGO_ENABLED=0
go build -C test -trimpath -ldflags='-s -w' -o ../bin/ ./echo
go build -C hack/cluster/image -o ../../../bin/ .

# tag NAME FILE...: the image's name, with a tag made of the files.
tag() {
    local name=$1
    shift
    echo "$name:dev-$(cat "$@" | sha256sum | cut -c1-12)"
}

haproxy=$(command -v haproxy)
img=$(tag gateway bin/gateway bin/gateway-agent)
echo_img=$(tag gateway-echo bin/echo)
haproxy_img=$(tag gateway-haproxy "$haproxy")
bin/image -o bin/gateway.tar -t "$img" -user 65532 -entrypoint /gateway \
    bin/gateway:/gateway bin/gateway-agent:/gateway-agent
bin/image -o bin/echo.tar -t "$echo_img" -user 65532 -entrypoint /echo bin/echo:/echo
bin/image -o bin/haproxy.tar -t "$haproxy_img" -libs -user 99 -stop-signal SIGUSR1 -entrypoint haproxy \
    "$haproxy:/usr/local/sbin/haproxy"
hack/cluster/cluster.sh load bin/gateway.tar bin/echo.tar bin/haproxy.tar >&2
echo "export IMG=$img ECHO_IMG=$echo_img HAPROXY_IMG=$haproxy_img"
