# Removing the cluster. Sourced by cluster.sh.
# shellcheck shell=bash

# down ends every process of the cluster, then takes away what they and we made. It is safe to run on what a
# crash, a reboot or half a "down" left. Nobody is asked to end politely: what they would save is removed.
down() {
    ((EUID == 0)) || fail_machine "removing the cluster needs root (sudo)"
    mkdir -p "$cache"
    lock "$cache"
    if [[ ! -d $state && -z $(leftovers) ]]; then
        say "no cluster is up"
        return
    fi
    say "removing the cluster"
    local -a sockets files
    mapfile -t sockets < <(shim_sockets)
    end_processes
    unmount_all
    if [[ -d $state ]]; then
        restore_network
        restore_sysctls
    fi
    remove_cgroups
    mapfile -t files < <(stray_files)
    rm -f "${sockets[@]}" "${files[@]}"
    rm -rf --one-file-system "$run" "$logs" "$state"
    rmdir --parents --ignore-fail-on-non-empty /run/containerd/s /var/lib/cni/results /var/lib/cni/networks \
        /var/log/containers /var/lib/kubelet/device-plugins 2>/dev/null || true
    verify_removed "${sockets[@]}"
}

# processes prints the processes in the cluster's cgroups.
processes() {
    local hierarchy
    for hierarchy in $(hierarchies); do
        if [[ -d $hierarchy/$cgroup ]]; then
            find "$hierarchy/$cgroup" -name cgroup.procs -exec cat {} + 2>/dev/null || true
        fi
    done | sort -un
}

end_processes() {
    local -a pids
    local attempt
    # More than one round: a process may start another between listing and killing.
    for attempt in {1..100}; do
        mapfile -t pids < <(processes)
        ((${#pids[@]} == 0)) && return
        kill -KILL "${pids[@]}" 2>/dev/null || true
        sleep 0.05
    done
    fail "failed to end processes: ${pids[*]}"
}

# mounts prints where something is mounted below our directories, innermost first.
mounts() {
    local point
    while read -r _ _ _ _ point _; do
        case $point in
        "$state"/* | "$run"/* | "$logs"/*) printf '%b\n' "$point" ;;
        esac
    done </proc/self/mountinfo | tac
}

unmount_all() {
    local point
    while read -r point; do
        umount "$point" 2>/dev/null || umount --lazy "$point"
    done < <(mounts)
}

# shim_sockets prints the sockets of containerd's shims, which are not in its state directory.
shim_sockets() {
    local file address
    for file in "$run"/{,node-*/}containerd/io.containerd.runtime.v2.task/*/*/address; do
        if [[ -f $file ]]; then
            address=$(<"$file")
            echo "${address#unix://}"
        fi
    done
}

# stray_files prints what container tools keep in places they do not let us choose.
stray_files() {
    grep -rlsF "$run/" /var/lib/cni/results || true
    find /var/log/containers -lname "$logs/*" 2>/dev/null || true
    find /var/lib/kubelet/device-plugins -type s -name kubelet.sock 2>/dev/null || true
}

remove_cgroups() {
    local hierarchy
    for hierarchy in $(hierarchies); do
        # A cgroup can be removed only some milliseconds after its last process has ended.
        wait_until 5 remove_cgroup "$hierarchy/$cgroup" || true
    done
}

remove_cgroup() {
    [[ ! -d $1 ]] || find "$1" -depth -type d -exec rmdir {} +
}

# leftovers prints everything of the cluster that is still there, one thing a line.
leftovers() {
    local hierarchy dir
    processes | sed 's/^/process /'
    mounts | sed 's/^/mount /'
    pod_links | sed 's/^/network link /'
    host_ports | sed 's/^/host port /'
    networks | sed 's/^/network namespace /'
    if ip link show "$link" >/dev/null 2>&1; then
        echo "network link $link"
    fi
    for hierarchy in $(hierarchies); do
        [[ -d $hierarchy/$cgroup ]] && echo "cgroup $hierarchy/$cgroup"
    done
    for dir in "$state" "$run" "$logs"; do
        [[ -e $dir ]] && echo "directory $dir"
    done
    stray_files | sed 's/^/file /'
}

# verify_removed SOCKET... fails if those or anything else of the cluster is still there.
verify_removed() {
    local remains socket family
    remains=$(
        leftovers
        for socket in "$@"; do
            [[ -e $socket ]] && echo "socket $socket"
        done
        for family in ip ip6; do
            nft list table "$family" kube-proxy >/dev/null 2>&1 && echo "nftables table $family kube-proxy"
        done
        true
    )
    if [[ -n $remains ]]; then
        echo "$remains" >&2
        fail "failed to remove everything: the above is left"
    fi
    say "nothing of the cluster is left"
}
