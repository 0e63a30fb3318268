# What the findings about HAProxy share. It needs bash, curl, python3 and, on Debian, apt-get and dpkg-deb.
set -euo pipefail

dir=$(mktemp -d)
pids=()
# shellcheck disable=SC2329 # it is called at the end
clean() {
    [[ ${#pids[@]} == 0 ]] || kill "${pids[@]}" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$dir"
}
trap clean EXIT

changed() {
    echo "changed: $*" >&2
    exit 1
}

# expect WHAT GOT WANT: what was seen is still so.
expect() {
    [[ $2 == "$3" ]] || changed "$1: got $(printf %q "$2"), and it was $(printf %q "$3")"
    echo "as seen: $1: $2"
}

# haproxy_347 sets haproxy to a HAProxy of Debian's package 3.4.7-1, or to another one that HAPROXY names.
haproxy_347() {
    haproxy=${HAPROXY:-}
    [[ -z $haproxy ]] || return 0
    local archive apt package libraries key=/usr/share/keyrings/debian-archive-keyring.gpg root=$dir/package
    archive=$(apt-get indextargets 'Created-By: Packages' 'Origin: Debian' 'Component: main' --format '$(REPO_URI)' | sed -n 1p)
    mkdir -p "$root" "$dir"/apt/{lists,cache/archives}/partial
    touch "$dir/apt/status"
    printf "deb [signed-by=$key] %s %s main\n" "$archive" sid "$archive" experimental >"$dir/apt/sources"
    apt=(apt-get -qq -o APT::Sandbox::User=root -o Debug::NoLocking=true -o Dir::Etc::SourceList="$dir/apt/sources" -o Dir::Etc::SourceParts=-
        -o Dir::State::Lists="$dir/apt/lists" -o Dir::Cache="$dir/apt/cache" -o Dir::State::Status="$dir/apt/status")
    "${apt[@]}" update
    "${apt[@]}" install -y --download-only --no-install-recommends haproxy=3.4.7-1 >/dev/null
    for package in "$dir"/apt/cache/archives/*.deb; do dpkg-deb -x "$package" "$root"; done
    # It needs a newer C library than the machine may have, so it is started by the loader of that.
    libraries=$(dirname "$(find "$root" -name libc.so.6)")
    haproxy=$dir/haproxy
    printf '#!/bin/sh\nexec %s/ld-linux-*.so.* --library-path %s %s/usr/sbin/haproxy "$@"\n' "$libraries" "$libraries" "$root" >"$haproxy"
    chmod +x "$haproxy"
}

# start runs HAProxy with the lines of standard input after common ones. Sockets are in $dir.
start() {
    cat - >"$dir/rest.cfg"
    cat >"$dir/haproxy.cfg" <<END
global
    stats socket unix@$dir/cli level admin
    expose-experimental-directives
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
END
    sed "s|DIR|$dir|g" "$dir/rest.cfg" >>"$dir/haproxy.cfg"
    "$haproxy" -db -f "$dir/haproxy.cfg" >"$dir/log" 2>&1 &
    pids+=($!)
    for _ in {1..200}; do
        [[ -S $dir/cli ]] && cli "show info" >/dev/null 2>&1 && return
        kill -0 "${pids[-1]}" 2>/dev/null || {
            cat "$dir/log" >&2
            changed "HAProxy does not start"
        }
        sleep 0.05
    done
    changed "HAProxy does not answer"
}

# cli COMMAND sends one to HAProxy.
cli() {
    python3 - "$dir/cli" "$1" <<'END'
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(sys.argv[2].encode() + b"\n")
s.shutdown(socket.SHUT_WR)
while True:
    part = s.recv(65536)
    if not part:
        break
    sys.stdout.write(part.decode())
END
}

# get SOCKET ARGUMENT...: a request to a socket in $dir.
get() { curl -sS --max-time 20 --unix-socket "$dir/$1" "${@:2}"; }
