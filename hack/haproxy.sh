#!/usr/bin/env bash
# Prints a directory for the front of PATH with a haproxy of the version that proxy pods run: that of the Makefile's HAPROXY_IMG. If this
# machine has another, it comes from Debian's archive, with the libraries it needs, into the cache: nothing is installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=hack/lib.sh
source hack/lib.sh

# Debian's releases that may have it, the most stable one first. Not every mirror has all of them.
suites=(forky sid experimental)
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

version=$(sed -n 's/^HAPROXY_IMG .*haproxy:\([0-9]*\.[0-9]*\).*/\1/p' Makefile)
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
targets() { apt-get indextargets 'Created-By: Packages' 'Origin: Debian' 'Component: main' --format '$(REPO_URI)' 2>/dev/null | sed -n 1p; }
archive=$(targets) || true
if [[ -z $archive && $EUID == 0 ]]; then
    apt-get -o DPkg::Lock::Timeout=300 -qq update >&2 || true
    archive=$(targets) || true
fi
[[ -n $archive && -r $keyring ]] || fail "there is no HAProxy $version on the PATH, and no Debian archive to take it from: install it"

say "Fetching HAProxy $version" >&2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{lists,cache/archives}/partial "$work/new/bin"
touch "$work/status"

# apt, as on a machine on which nothing is installed. The machine's own locks are not for it.
apt() {
    apt-get -qq -o Acquire::Retries=3 -o APT::Sandbox::User=root -o Debug::NoLocking=true \
        -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=- -o Dir::State::Lists="$work/lists" \
        -o Dir::Cache="$work/cache" -o Dir::State::Status="$work/status" "$@" >&2
}

# fetch SUITE: downloads HAProxy and what it depends on. What experimental has depends on what sid has.
fetch() {
    echo "deb [signed-by=$keyring] $archive ${1/experimental/sid} main" >"$work/sources.list"
    [[ $1 != experimental ]] || echo "deb [signed-by=$keyring] $archive $1 main" >>"$work/sources.list"
    apt update && apt install -y --download-only --no-install-recommends "haproxy=$version.*"
}
for suite in "${suites[@]}"; do fetch "$suite" 2>/dev/null && break; done
packages=("$work"/cache/archives/*.deb)
[[ -e ${packages[0]} ]] || fail "Debian's archive at $archive has no HAProxy $version in ${suites[*]}: install it"
for package in "${packages[@]}"; do dpkg-deb -x "$package" "$work/new/root"; done

# It needs a newer C library than the machine's, so it is started by the loader of that.
libraries=$(dirname "$(find "$work/new/root" -name libc.so.6)")
libraries=$dir/${libraries#"$work/new/"}
cat >"$work/new/bin/haproxy" <<END
#!/bin/sh
exec $libraries/ld-linux-*.so.* --argv0 $dir/bin/haproxy --library-path $libraries $dir/root/usr/sbin/haproxy "\$@"
END
chmod +x "$work/new/bin/haproxy"
rm -rf "$dir"
mkdir -p "$(dirname "$dir")"
mv "$work/new" "$dir"
usable "$dir/bin/haproxy" || fail "Debian's HAProxy $version does not run here: install one that does"
echo "$dir/bin"
