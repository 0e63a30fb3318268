#!/usr/bin/env bash
# Builds the images without docker: the operator and what it starts beside HAProxy, the echo backend of the example, and
# HAProxy as hack/haproxy.sh has it. Loads them into the one-node cluster and prints their names, for eval. Their tags
# come from their content, so that deploying them rolls out what has changed and nothing else.
#
# With the argument "build", they are only made, in bin/. With REGISTRY=registry.example.com/team they are pushed there,
# with the credentials of docker login, and loaded nowhere.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=hack/lib.sh
source hack/lib.sh

need_go
# The same sources make the same images, whatever commit they are said to be.
export CGO_ENABLED=0 GOFLAGS=-buildvcs=false
make --no-print-directory -s build >&2
go build -C test -trimpath -gcflags=all=-dwarf=false -ldflags='-s -w' -o ../bin/ ./echo
go build -C hack/cluster/image -trimpath -o ../../../bin/ .

# tag NAME FILE...: the image's name, with a tag made of the files.
tag() {
    local name=$1
    shift
    echo "${REGISTRY:+$REGISTRY/}$name:dev-$(cat "$@" | sha256sum | cut -c1-12)"
}

# destination NAME: the option that says where an image goes.
destination() { if [[ -n ${REGISTRY:-} ]]; then echo -push; else echo "-o=bin/$1.tar"; fi; }

# image NAME ENTRYPOINT FILE...: makes bin/NAME.tar of programs in bin/, and prints the image's name.
image() {
    local name=$1 entrypoint=$2 program img files=()
    shift 2
    for program in "$@"; do
        files+=("bin/$program:/$program")
    done
    img=$(tag "$name" "${files[@]%%:*}")
    bin/image "$(destination "$name")" -t "$img" -user 65532 -entrypoint "/$entrypoint" "${files[@]}"
    echo "$img"
}

# haproxy_image makes bin/haproxy.tar and prints the image's name.
haproxy_image() {
    local dir haproxy loader img files=()
    dir=$(hack/haproxy.sh)
    haproxy=$dir/haproxy
    local options=(-user 99 -stop-signal SIGUSR1 -entrypoint haproxy)
    if [[ $dir == "$(cached haproxy)"* ]]; then
        # From the cache: each library is where the loader looks for it, and the loader is where the program has it.
        haproxy=$dir/../usr/sbin/haproxy
        loader=$(find "$dir/../usr/lib" -name 'ld-linux-*.so.*')
        mapfile -t files < <("$loader" --library-path "$(dirname "$loader")" --list "$haproxy" |
            awk -v dir="/usr/lib/$(basename "$(dirname "$loader")")/" '$2 == "=>" {print $3 ":" ($1 ~ /^\// ? $1 : dir $1)}')
    else
        options+=(-libs)
    fi
    img=$(tag gateway-haproxy "$haproxy" "${files[@]%%:*}")
    bin/image "$(destination haproxy)" -t "$img" "${options[@]}" "$haproxy:/usr/local/sbin/haproxy" "${files[@]}"
    echo "$img"
}

img=$(image gateway gateway gateway gateway-agent gateway-keys gateway-login gateway-waf gateway-key-server)
echo_img=$(image gateway-echo echo echo)
haproxy_img=$(haproxy_image)
[[ ${1:-} == build || -n ${REGISTRY:-} ]] || hack/cluster/cluster.sh load bin/gateway.tar bin/gateway-echo.tar bin/haproxy.tar >&2
echo "export IMG=$img ECHO_IMG=$echo_img HAPROXY_IMG=$haproxy_img"
