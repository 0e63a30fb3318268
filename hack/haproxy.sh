#!/usr/bin/env bash
# Prints a directory for the front of PATH with a haproxy of the version that proxy pods run: the Makefile's
# HAPROXY_IMG. If this machine has another, it comes from Debian's archive, with the libraries it needs, into the cache:
# nothing is installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=hack/lib.sh
source hack/lib.sh

version=$(sed -n 's/^HAPROXY_IMG .*haproxy:\([0-9]*\.[0-9]*\).*/\1/p' Makefile)
dir=$(cached "haproxy/$version")

# usable HAPROXY: it starts, and is of the version.
usable() { [[ $("$1" -v 2>/dev/null) == "HAProxy version $version."* ]]; }

for haproxy in "$(command -v haproxy)" "$dir/bin/haproxy"; do
    if usable "$haproxy"; then
        dirname "$haproxy"
        exit
    fi
done
# Sid comes with experimental. Every suite before the right one costs seconds: its list is fetched and read.
fetch_debian "$dir" "haproxy=$version.*" experimental forky ||
    fail "there is no HAProxy $version on the PATH, and none in a Debian archive: install it"

with_libraries "$dir" haproxy
usable "$dir/bin/haproxy" || fail "Debian's HAProxy $version does not run here: install one that does"
echo "$dir/bin"
