#!/usr/bin/env bash
# Prints a directory for the front of PATH with an etcd on which an API server has watch-lists, by which informers
# begin: 3.5.13 or newer, as users' clusters have. If this machine has an older one, or none, it comes from Debian's
# archive into the cache: nothing is installed. With the argument "find", nothing is fetched, either.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=hack/lib.sh
source hack/lib.sh

readonly oldest=3.5.13
dir=$(cached etcd)

# usable ETCD: it starts, and is new enough.
usable() { since "$oldest" "$("$1" --version 2>/dev/null | sed -n 's/^etcd Version: //p')"; }

for etcd in "$(command -v etcd)" "$dir/usr/bin/etcd"; do
    if usable "$etcd"; then
        dirname "$etcd"
        exit
    fi
done
[[ ${1:-} != find ]] || exit 1
fetch_debian "$dir" etcd-server trixie forky ||
    fail "there is no etcd $oldest or newer on the PATH, and none in a Debian archive: install it"
usable "$dir/usr/bin/etcd" || fail "Debian's etcd does not run here: install etcd $oldest or newer"
echo "$dir/usr/bin"
