#!/usr/bin/env bash
# hack/haproxy-image.sh [VERSION]: makes an image of the HAProxy that hack/haproxy.sh has fetched and loads it into the one-node cluster.
# Prints its name, for eval after hack/images.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=hack/lib.sh
source hack/lib.sh

need_go
bin=$(hack/haproxy.sh "$@")
haproxy=$bin/../root/usr/sbin/haproxy
[[ -x $haproxy ]] || fail "this machine's own HAProxy is of that version: hack/images.sh makes the image"
loader=$(find "$bin/../root/usr/lib" -name 'ld-linux-*.so.*')

# Each library is where the loader looks for it, and the loader is where the program has it.
mapfile -t files < <("$loader" --library-path "$(dirname "$loader")" --list "$haproxy" |
    awk -v dir="/usr/lib/$(basename "$(dirname "$loader")")/" '$2 == "=>" {print $3 ":" ($1 ~ /^\// ? $1 : dir $1)}')
go build -C hack/cluster/image -trimpath -o ../../../bin/ .
image=gateway-haproxy:dev-$(cat "$haproxy" "${files[@]%%:*}" | sha256sum | cut -c1-12)
bin/image -o bin/haproxy-newer.tar -t "$image" -user 99 -stop-signal SIGUSR1 -entrypoint haproxy "$haproxy:/usr/local/sbin/haproxy" "${files[@]}"
hack/cluster/cluster.sh load bin/haproxy-newer.tar >&2
echo "export HAPROXY_IMG=$image"
