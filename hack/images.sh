#!/usr/bin/env bash
# Builds the images without docker and loads them into the one-node cluster: the operator and what it starts beside HAProxy, the echo backend of the
# example, and HAProxy from this machine's package. Their tags come from their content, so that deploying them rolls out what
# has changed and nothing else. Each image has lists of what its programs are made of, in /usr/share/sbom. Prints the names, for
# eval. With the argument "build", the images are only made, in bin/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=hack/lib.sh
source hack/lib.sh

need_go
need_haproxy
# The same sources make the same images, whatever commit they are said to be.
export CGO_ENABLED=0 GOFLAGS=-buildvcs=false
make --no-print-directory -s build >&2
go build -C test -trimpath -ldflags='-s -w' -o ../bin/ ./echo
go build -C hack/cluster/image -trimpath -o ../../../bin/ .

# tag NAME FILE...: the image's name, with a tag made of the files.
tag() {
    local name=$1
    shift
    echo "$name:dev-$(cat "$@" | sha256sum | cut -c1-12)"
}

haproxy=$(command -v haproxy)
mapfile -t libraries < <(ldd "$haproxy" | awk '$3 ~ /^\// {print $3} $1 ~ /^\// {print $1}')
rm -rf bin/sbom
hack/sbom.sh bin/sbom bin/gateway bin/gateway-agent bin/gateway-keys bin/echo "$haproxy" "${libraries[@]}" >&2

# list NAME: the argument that puts a list into an image.
list() { echo "bin/sbom/$1.cdx.json:/usr/share/sbom/$1.cdx.json"; }

img=$(tag gateway bin/gateway{,-agent,-keys} bin/sbom/gateway{,-agent,-keys}.cdx.json)
echo_img=$(tag gateway-echo bin/echo bin/sbom/echo.cdx.json)
haproxy_img=$(tag gateway-haproxy "$haproxy" bin/sbom/debian.cdx.json)
bin/image -o bin/gateway.tar -t "$img" -user 65532 -entrypoint /gateway \
    bin/gateway:/gateway bin/gateway-agent:/gateway-agent bin/gateway-keys:/gateway-keys \
    "$(list gateway)" "$(list gateway-agent)" "$(list gateway-keys)"
bin/image -o bin/echo.tar -t "$echo_img" -user 65532 -entrypoint /echo bin/echo:/echo "$(list echo)"
bin/image -o bin/haproxy.tar -t "$haproxy_img" -libs -user 99 -stop-signal SIGUSR1 -entrypoint haproxy \
    "$haproxy:/usr/local/sbin/haproxy" "$(list debian)"
[[ ${1:-} == build ]] || hack/cluster/cluster.sh load bin/gateway.tar bin/echo.tar bin/haproxy.tar >&2
echo "export IMG=$img ECHO_IMG=$echo_img HAPROXY_IMG=$haproxy_img"
