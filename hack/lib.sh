# Sourced by the scripts in hack/: printing, and finding or installing what they need.
# shellcheck shell=bash

# say prints a step's headline with the time since the script began.
say() { printf '\n\033[1m[%3ds] %s\033[0m\n' "$SECONDS" "$*"; }

# fail prints why the script cannot go on, and ends it.
fail() {
    printf '%s: %s\n' "$(basename "$0")" "$*" >&2
    exit 1
}

# forget_own_cluster unsets a KUBECONFIG that is the one-node cluster's, as users of it export it: else that would be taken for a
# cluster that is up and has the images. "cluster.sh kubeconfig" has no answer while none is up, so its variable is read.
forget_own_cluster() {
    # shellcheck source=hack/cluster/cluster.sh
    [[ ${KUBECONFIG:-} != "$(source hack/cluster/cluster.sh && echo "$kubeconfig")" ]] || unset KUBECONFIG
}

# need COMMAND PACKAGE: installs the Debian package if the command is missing.
need() {
    command -v "$1" >/dev/null && return
    { [[ $EUID == 0 ]] && command -v apt-get >/dev/null; } || fail "$1 is missing: install it"
    say "Installing $2"
    DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -qq update
    DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -qq install -y --no-install-recommends "$2" >/dev/null
}

# need_go: a Go that can build the project. Distributions' Go since 1.21 fetches the version go.mod asks for by itself.
need_go() {
    export PATH=$PATH:/usr/local/go/bin
    need go golang-go
    local want
    want=go$(awk '$1 == "go" {print $2}' go.mod)
    go_since "$want" && return
    export GOTOOLCHAIN=auto
    go_since "$want" || fail "$(go env GOVERSION) is too old: install Go ${want#go} or newer from go.dev/dl"
}

go_since() { since "$1" "$(go env GOVERSION 2>/dev/null)"; }

# since OLDEST VERSION: the version is not an older one.
since() { [[ $(printf '%s\n' "$1" "$2" | sort -V | head -n 1) == "$1" ]]; }

# need_haproxy puts the HAProxy that the rendered files are for on the PATH.
need_haproxy() {
    local dir
    dir=$(hack/haproxy.sh) || exit
    export PATH=$dir:$PATH
}
