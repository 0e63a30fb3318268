#!/usr/bin/env bash
# hack/haproxy.sh [VERSION]: prints a directory for the front of PATH with a haproxy of the version, as in 3.4; without one, of that which
# proxy pods run by default, in the Makefile's HAPROXY_IMG. If this machine's is another, it is that of Debian's next release, or of what may
# come to it, with the libraries it needs, in the cache: nothing is installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=hack/lib.sh
source hack/lib.sh

release=forky
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

version=${1:-$(sed -n 's/^HAPROXY_IMG .*haproxy:\([0-9]*\.[0-9]*\).*/\1/p' Makefile)}
dir=${XDG_CACHE_HOME:-${HOME:?}/.cache}/gateway/haproxy-$version

# usable HAPROXY: it starts, and is of the version.
usable() { [[ $("$1" -v 2>/dev/null) == "HAProxy version $version."* ]]; }

for haproxy in "$(command -v haproxy)" "$dir/bin/haproxy"; do
    if usable "$haproxy"; then
        dirname "$haproxy"
        exit
    fi
done

# From where this machine has its own packages.
# shellcheck disable=SC2016
archive=$(apt-get indextargets 'Created-By: Packages' 'Origin: Debian' 'Component: main' --format '$(REPO_URI)' 2>/dev/null | sed -n 1p) || true
[[ -n $archive && -r $keyring ]] || fail "this machine has no HAProxy $version, and no packages of Debian's to take it from"

say "Fetching HAProxy $version" >&2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{lists,cache/archives}/partial "$work/new/bin"
# What may come to the next release is not on every mirror.
for suite in "$release" ${1:+experimental}; do echo "deb [signed-by=$keyring] $archive $suite main"; done >"$work/sources.list"
touch "$work/status"

# apt, as on a machine of that release on which nothing is installed. The machine's own locks are not for it.
apt() {
    apt-get -qq -o Acquire::Retries=3 -o APT::Sandbox::User=root -o Debug::NoLocking=true -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=- -o Dir::State::Lists="$work/lists" \
        -o Dir::Cache="$work/cache" -o Dir::State::Status="$work/status" "$@" >&2
}
apt update
apt install -y --download-only --no-install-recommends "haproxy=$version.*"
for package in "$work"/cache/archives/*.deb; do dpkg-deb -x "$package" "$work/new/root"; done

# It needs a newer C library than the machine's, so it is started by the loader of that.
libraries=$(dirname "$(find "$work/new/root" -name libc.so.6)")
libraries=$dir/${libraries#"$work/new/"}
cat >"$work/new/bin/haproxy" <<EOF
#!/bin/sh
exec $libraries/ld-linux-*.so.* --argv0 $dir/bin/haproxy --library-path $libraries $dir/root/usr/sbin/haproxy "\$@"
EOF
chmod +x "$work/new/bin/haproxy"
rm -rf "$dir"
mkdir -p "$(dirname "$dir")"
mv "$work/new" "$dir"
usable "$dir/bin/haproxy" || fail "Debian has no HAProxy $version that runs here"
echo "$dir/bin"
