# The programs a node is made of: packages of the distribution, and Kubernetes built from source into the
# cache. Sourced by cluster.sh.
# shellcheck shell=bash

# Everything "up" calls that a bare Debian or Ubuntu may lack, but etcd, which ../etcd.sh finds.
node_programs=(containerd ctr runc cni nft iptables ip openssl)

# missing_programs PROGRAM... prints those that are not installed.
missing_programs() {
    local program
    for program in "$@"; do
        if [[ $program == cni ]]; then
            cni_dir >/dev/null || echo cni
        else
            command -v "$program" >/dev/null || echo "$program"
        fi
    done
}

# cni_dir prints the directory of the CNI plugins, which are not on anyone's PATH.
cni_dir() {
    local dir
    for dir in /usr/lib/cni /opt/cni/bin; do
        if [[ -x $dir/ptp && -x $dir/host-local && -x $dir/portmap && -x $dir/loopback ]]; then
            echo "$dir"
            return
        fi
    done
    return 1
}

package_of() {
    case $1 in
    ctr) echo containerd ;;
    cni) echo containernetworking-plugins ;;
    nft) echo nftables ;;
    ip) echo iproute2 ;;
    *) echo "$1" ;;
    esac
}

# install_packages PROGRAM... installs the packages of those that are missing. The services that come with
# some of them are not for us: they are neither started nor left to start at the next boot.
install_packages() {
    local -a absent packages
    mapfile -t absent < <(missing_programs "$@")
    ((${#absent[@]} == 0)) && return
    mapfile -t packages < <(for program in "${absent[@]}"; do package_of "$program"; done | sort -u)
    if ! command -v apt-get >/dev/null; then
        fail_machine "not installed: ${absent[*]} (Debian and Ubuntu have them as: ${packages[*]})"
    elif ((EUID != 0)); then
        fail_machine "not installed: ${absent[*]}; run: sudo apt-get install ${packages[*]}"
    fi
    lock "$cache"
    mapfile -t absent < <(missing_programs "$@")
    ((${#absent[@]} == 0)) && return
    say "installing packages: ${packages[*]}"
    mkdir -p "$kube_dir"
    (without_services apt_install "${packages[@]}") >"$kube_dir/apt.log" 2>&1 || {
        tail -n 20 "$kube_dir/apt.log" >&2
        fail "failed to install packages: ${packages[*]} (whole output: $kube_dir/apt.log)"
    }
    if command -v systemctl >/dev/null; then
        for package in "${packages[@]}"; do
            SYSTEMD_OFFLINE=1 systemctl disable --quiet "$package.service" 2>/dev/null || true
        done
    fi
}

apt_install() {
    local -a apt=(env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300)
    "${apt[@]}" update
    "${apt[@]}" install --no-install-recommends "$@"
}

# without_services COMMAND... runs it while Debian's policy file forbids starting services; a policy the
# machine already has is left alone. Call it in a subshell: it sets a trap.
without_services() {
    local policy=/usr/sbin/policy-rc.d
    if [[ ! -e $policy ]]; then
        trap 'rm -f '"$policy" EXIT
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod +x "$policy"
    fi
    "$@"
}

kube_programs=(kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy kubectl)

kube_key() {
    key_of "$here/kube/main.go" "$here/kube/go.mod"
}

kube_is_built() {
    [[ -x $bin/kube && -f $kube_dir/key && $(<"$kube_dir/key") == "$(kube_key)" ]]
}

# build_kube makes $bin: the one program and a symbolic link for each of its names, and etcd beside them.
build_kube() {
    local program etcd
    etcd=$(find_etcd)/etcd
    if ! kube_is_built; then
        command -v go >/dev/null || fail_machine "Go is not installed; it is needed to build Kubernetes"
        mkdir -p "$bin"
        lock "$kube_dir"
        kube_is_built || compile_kube
    fi
    for program in "${kube_programs[@]}"; do
        [[ -L $bin/$program ]] || ln -sf kube "$bin/$program"
    done
    [[ $bin/etcd -ef $etcd ]] || ln -sf "$etcd" "$bin/etcd"
}

# find_etcd prints the directory of an etcd, which it fetches if need be. Call it in a subshell: it may lock.
find_etcd() {
    "$here/../etcd.sh" find && return
    lock "$cache"
    "$here/../etcd.sh" || exit "$exit_machine"
}

# go_here COMMAND... runs go as this build needs it, whatever the caller's environment says: for this
# machine, without cgo, with the go.mod it is given.
go_here() {
    env -u GOOS -u GOARCH GOWORK=off GOFLAGS=-mod=readonly CGO_ENABLED=0 GOGC=200 go "$@"
}

compile_kube() {
    local package ldflags="-s -w" total log=$kube_dir/build.log
    for package in k8s.io/client-go/pkg/version k8s.io/component-base/version; do
        ldflags+=" -X $package.gitVersion=$kube_version -X $package.gitTreeState=clean"
        ldflags+=" -X $package.gitMajor=1 -X $package.gitMinor=$(cut -d. -f2 <<<"$kube_version")"
    done
    # The linker would drop what debuggers read: without making it, the compiler takes 7 % less CPU, and with half of the
    # garbage collections another 5 %.
    local -a flags=(-trimpath -buildvcs=false -tags=grpcnotrace -gcflags=all=-dwarf=false)

    say "building Kubernetes $kube_version, once: about $((10 / $(nproc) + 1)) minutes on $(nproc) cores"
    cd "$here/kube"
    go_here list -deps "${flags[@]}" -f '{{if .Stale}}{{.ImportPath}}{{end}}' . >"$kube_dir/stale" 2>"$log" &
    watch_build $! "$log" "downloading the source: %d modules so far"
    total=$(grep -c . "$kube_dir/stale") || true
    go_here build -v "${flags[@]}" -ldflags="$ldflags" -o "$kube_dir/kube.new" . 2>"$log" &
    watch_build $! "$log" "compiling: %d of $total packages"
    cd - >/dev/null
    mkdir -p "$bin"
    mv "$kube_dir/kube.new" "$bin/kube"
    kube_key >"$kube_dir/key"
    say "built Kubernetes $kube_version"
}

# watch_build PID LOG FORMAT waits for a go command that logs a line for everything it has done, and prints
# the number of lines every 15 seconds.
watch_build() {
    local pid=$1 log=$2 format=$3 next=$((SECONDS + 15))
    # Jobs in the background do not see Ctrl-C.
    trap 'kill '"$pid"' 2>/dev/null' EXIT
    while kill -0 "$pid" 2>/dev/null; do
        if ((SECONDS >= next)); then
            # shellcheck disable=SC2059 # the format is ours
            say "$(printf "$format" "$(wc -l <"$log")")"
            next=$((SECONDS + 15))
        fi
        sleep 0.2
    done
    trap - EXIT
    wait "$pid" || {
        tail -n 20 "$log" >&2
        fail "failed to build Kubernetes (whole output: $log)"
    }
}

# build_pause makes the image that holds a pod's namespaces, and sets pause_image and pause_archive.
build_pause() {
    local key tmp
    key=$(key_of "$here"/image/{main,build,layout,libraries,pause/main}.go "$here/image/go.mod")
    pause_image=docker.io/library/gateway-pause:$key
    pause_archive=$cache/pause-$key.tar
    [[ -f $pause_archive ]] && return
    say "building the pause image"
    tmp=$(mktemp -d)
    (
        trap 'rm -rf "$tmp"' EXIT
        cd "$here/image"
        go_here build -trimpath -buildvcs=false -ldflags='-s -w' -o "$tmp" . ./pause
        rm -f "$cache"/pause-*.tar
        "$tmp/image" -o "$pause_archive" -t "$pause_image" -user 65535 -entrypoint /pause "$tmp/pause:/pause"
    ) 2>"$cache/pause.log" || {
        cat "$cache/pause.log" >&2
        fail "failed to build the pause image"
    }
    rm -f "$cache/pause.log"
}
