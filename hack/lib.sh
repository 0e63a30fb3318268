# Sourced by the scripts in hack/: printing, and finding or installing what they need.
# shellcheck shell=bash

# say prints a step's headline with the time since the script began.
say() { printf '\n\033[1m[%3ds] %s\033[0m\n' "$SECONDS" "$*"; }

# fail prints why the script cannot go on, and ends it.
fail() {
    printf '%s: %s\n' "$(basename "$0")" "$*" >&2
    exit 1
}

# use_cluster VARIABLE sets KUBECONFIG to the cluster that tests or the demo may change, and cluster to where it is
# from:
#
#   given  the variable names it. It must not have Gateways.
#   kind   kind runs it, where kind and docker are there. It is called gateway-test for TEST_KUBECONFIG.
#   node   it is the one-node cluster.
#
# The user's own KUBECONFIG does not count.
use_cluster() {
    if [[ -n ${!1:-} ]]; then
        use_given "$1"
    elif has_kind; then
        local name=${1%_KUBECONFIG}
        use_kind "gateway-${name,,}"
    else
        use_node
    fi
}

# use_given VARIABLE uses the cluster that the variable names.
use_given() {
    local gateways
    cluster=given
    export KUBECONFIG=${!1}
    say "Using the cluster of $1=$KUBECONFIG, context $(hack/kubectl.sh config current-context)"
    gateways=$(hack/kubectl.sh get crd gateways.app.example.com --ignore-not-found -o name) ||
        fail "the cluster of $1 does not answer"
    [[ -n $gateways ]] || return 0
    gateways=$(hack/kubectl.sh get gateways.app.example.com --all-namespaces --no-headers) || return
    [[ -z $gateways ]] || fail "the cluster of $1 has Gateways, which this would disturb:"$'\n'"$gateways"
}

# use_node starts the one-node cluster, unless it runs.
use_node() {
    cluster=node
    unset KUBECONFIG
    hack/cluster/cluster.sh up || return
    KUBECONFIG=$(hack/cluster/cluster.sh kubeconfig) || return
    export KUBECONFIG
}

# has_kind: this machine can run clusters of kind.
has_kind() { command -v kind >/dev/null && docker info >/dev/null 2>&1; }

# use_kind NAME makes a cluster of kind, unless it is there, with a kubeconfig of its own.
use_kind() {
    cluster=kind kind_name=$1
    say "Starting a cluster of kind, $1 (the first time, this downloads its image)"
    KUBECONFIG=$(cached "kind/$1")
    export KUBECONFIG
    mkdir -p "$(dirname "$KUBECONFIG")"
    if kind get clusters 2>/dev/null | grep -qx "$1"; then
        kind export kubeconfig --name "$1"
    else
        kind create cluster --name "$1"
    fi
}

# load_images builds the images, loads them into the cluster of use_cluster, and exports their names. A cluster that was
# given has its own.
load_images() {
    local names image
    [[ $cluster != given ]] || return 0
    say "Building the images"
    if [[ $cluster == kind ]]; then
        names=$(hack/images.sh build) || return
        for image in gateway gateway-echo haproxy; do
            kind load image-archive "bin/$image.tar" --name "$kind_name" || return
        done
    else
        names=$(hack/images.sh) || return
    fi
    eval "$names"
}

# need COMMAND PACKAGE...: installs the Debian packages if the command is missing.
need() {
    command -v "$1" >/dev/null && return
    { [[ $EUID == 0 ]] && command -v apt-get >/dev/null; } || fail "$1 is missing: install it"
    shift
    say "Installing $*"
    DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -qq update
    DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -qq install -y --no-install-recommends "$@" >/dev/null
}

# cached NAME: a directory in the cache, which need not exist.
cached() { echo "${XDG_CACHE_HOME:-${HOME:?}/.cache}/gateway/$1"; }

# debian_archive: the Debian archive that this machine has its own packages from.
# shellcheck disable=SC2016 # the variable is apt's
debian_archive() {
    apt-get indextargets 'Created-By: Packages' 'Origin: Debian' 'Component: main' --format '$(REPO_URI)' 2>/dev/null | sed -n 1p
}

# fetch_debian DIR PACKAGE[=VERSION] SUITE...: unpacks a package, with all that it depends on, into DIR. It comes from
# the first of the suites that has it. Nothing is installed. False if no suite has it, or this machine knows no Debian
# archive.
fetch_debian() {
    local dir=$1 package=$2 archive work keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    shift 2
    archive=$(debian_archive) || true
    if [[ -z $archive && $EUID == 0 ]]; then
        apt-get -o DPkg::Lock::Timeout=300 -qq update >&2 || true
        archive=$(debian_archive) || true
    fi
    [[ -n $archive && -r $keyring ]] || return
    say "Fetching ${package%%=*} from Debian's archive" >&2
    work=$(mktemp -d)
    mkdir -p "$work"/{lists,cache/archives}/partial "$work/root"
    touch "$work/status"
    # apt, as on a machine on which nothing is installed. The machine's own locks are not for it.
    local apt=(apt-get -qq -o Acquire::Retries=3 -o APT::Sandbox::User=root -o Debug::NoLocking=true
        -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=- -o Dir::State::Lists="$work/lists"
        -o Dir::Cache="$work/cache" -o Dir::State::Status="$work/status")
    local suite deb ok=1
    for suite in "$@"; do
        echo "deb [signed-by=$keyring] $archive ${suite/experimental/sid} main" >"$work/sources.list"
        # What experimental has depends on what sid has.
        [[ $suite != experimental ]] || echo "deb [signed-by=$keyring] $archive $suite main" >>"$work/sources.list"
        "${apt[@]}" update >&2 || continue
        "${apt[@]}" install -y --download-only --no-install-recommends "$package" >/dev/null 2>&1 || continue
        for deb in "$work"/cache/archives/*.deb; do dpkg-deb -x "$deb" "$work/root"; done
        rm -rf "$dir"
        mkdir -p "$(dirname "$dir")"
        mv "$work/root" "$dir"
        ok=0
        break
    done
    rm -rf "$work"
    return $ok
}

# with_libraries DIR PROGRAM [ARGUMENTS]: makes DIR/bin/PROGRAM, which starts what fetch_debian has unpacked. That needs a
# newer C library than the machine's, so it is started by the loader of its own.
with_libraries() {
    local dir=$1 libraries
    libraries=$(dirname "$(find "$dir" -name libc.so.6)")
    mkdir -p "$dir/bin"
    cat >"$dir/bin/$2" <<END
#!/bin/sh
exec $libraries/ld-linux-*.so.* --argv0 $dir/bin/$2 --library-path $libraries $dir/usr/sbin/$2 ${3:-} "\$@"
END
    chmod +x "$dir/bin/$2"
}

# need_go puts a Go that can build the project on the PATH. Go 1.21 and newer fetch the version that go.mod asks for by
# themselves. Where there is none, Debian's next one comes into the cache.
need_go() {
    local want dir oldest=go1.21 cache
    want=go$(awk '$1 == "go" {print $2}' go.mod)
    cache=$(cached go)
    for dir in "" /usr/local/go/bin "$HOME"/sdk/go*/bin /usr/lib/go-*/bin "$cache"/usr/lib/go/bin fetch; do
        if [[ $dir == fetch ]]; then
            fetch_debian "$cache" golang-go forky sid || break
            dir=$cache/usr/lib/go/bin
        fi
        [[ -z $dir || -x $dir/go ]] || continue
        PATH=${dir:+$dir:}$PATH since "$oldest" "$(PATH=${dir:+$dir:}$PATH go env GOVERSION 2>/dev/null)" || continue
        export PATH=${dir:+$dir:}$PATH
        since "$want" "$(go env GOVERSION)" || export GOTOOLCHAIN=auto
        since "$want" "$(go env GOVERSION 2>/dev/null)" && return
    done
    fail "no Go was found that can build this: install Go ${want#go} or newer from go.dev/dl"
}

# since OLDEST VERSION: the version is not an older one.
since() { [[ -n $2 && $(printf '%s\n' "$1" "$2" | sort -V | head -n 1) == "$1" ]]; }

# need_haproxy puts the HAProxy that the rendered files are for on the PATH.
need_haproxy() {
    local dir
    dir=$(hack/haproxy.sh) || exit
    export PATH=$dir:$PATH
}

# need_chromium installs Chromium where it is missing, for the tests of the plugin's page.
need_chromium() {
    command -v chromium >/dev/null && return
    apt-get -qq -o DPkg::Lock::Timeout=300 install -y --no-install-recommends chromium >&2 || fail "Chromium is needed: install Debian's package chromium"
}

# build_older COMMIT DIR PACKAGE... makes DIR of what the project was, with operator, agent and more programs in its bin.
build_older() {
    mkdir -p "$2"
    git archive "$1" | tar -xC "$2"
    (cd "$2" && CGO_ENABLED=0 go build -buildvcs=false -trimpath -gcflags=all=-dwarf=false -ldflags='-s -w' -tags=no_fs_access \
        -o bin/ . ./cmd/gateway-agent "${@:3}")
}

# build_peers builds peers and the stand-in for Envoy into $PEERS. Traefik is built without providers of DNS for ACME,
# because modules of some cannot be had, and with an empty module in place of one that is in its repository alone.
build_peers() {
    # shellcheck disable=SC2153 # the caller exports PEERS
    local peers=test/bench/peers lego=$PEERS/traefik-modules/lego ext=$PEERS/traefik-modules/ext
    (cd $peers/contour && go build -o "$PEERS/" github.com/projectcontour/contour/cmd/contour)
    (cd $peers/envoy && go build -o "$PEERS/" . github.com/envoyproxy/gateway/cmd/envoy-gateway)
    cp -r $peers/traefik "$PEERS/traefik-modules"
    cp -r "$(cd $peers/contour && go mod download -json github.com/go-acme/lego/v5@v5.4.1 | awk -F'"' '$2 == "Dir" {print $4}')" "$lego"
    chmod -R u+w "$lego"
    rm -r "$lego"/cmd "$lego"/providers/dns/*
    cat >"$lego/providers/dns/dns.go" <<'END'
package dns

import "github.com/go-acme/lego/v5/challenge"

func NewDNSChallengeProviderByName(string) (challenge.Provider, error) { panic("there are none") }
END
    mkdir "$ext"
    echo 'module github.com/traefik/traefik/dynamic/ext' >"$ext/go.mod"
    printf 'package ext\n\ntype HTTP struct{}\n\ntype Router struct{}\n' >"$ext/ext.go"
    (cd "$PEERS/traefik-modules" && go build -o "$PEERS/" github.com/traefik/traefik/v3/cmd/traefik)
}

# isolated COMMAND... runs a command where no packet leaves the machine, with a directory /certs of its own, where Envoy
# Gateway looks for certificates.
isolated() {
    # shellcheck disable=SC2016
    unshare --map-root-user --net --mount bash -ec '
        ip link set lo up
        ip link add own type veth peer other
        ip address add 192.0.2.1/24 dev own
        ip link set own up
        ip link set other up
        ip route add default via 192.0.2.2 # nobody; the API server wants one
        root=$(mktemp -d)
        mount -t tmpfs root "$root"
        for each in /*; do
            if [[ -L $each ]]; then
                cp -P "$each" "$root"
            elif [[ -d $each ]]; then
                mkdir "$root$each"
                mount --rbind "$each" "$root$each"
            fi
        done
        mkdir "$root/certs"
        exec chroot "$root" env --chdir="$PWD" "$@"' - "$@"
}

# machine prints what it is measured on.
machine() {
    printf '%s cores: %s; %s; Linux %s\n' "$(nproc)" "$(sed -n 's/^model name\s*: //p' /proc/cpuinfo | head -1)" \
        "$(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release)" "$(uname -r)"
    printf '%s; %s\n' "$(haproxy -v | head -1)" "$(go version)"
}
