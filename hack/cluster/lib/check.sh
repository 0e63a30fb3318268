# Can a node run on this machine? Sourced by cluster.sh.
# shellcheck shell=bash

# require_node ends the script with the exit code for it and one line naming everything that is missing.
# What needs a program that is not installed yet is not asked; "up" asks again after installing.
require_node() {
    local -a missing=()
    if [[ $(uname -s) != Linux ]]; then
        missing+=("Linux")
    elif ((EUID != 0)); then
        missing+=("root (sudo)")
    else
        check_programs
        check_namespaces
        check_cgroups
        check_kernel_files
    fi
    ((${#missing[@]} == 0)) && return
    local list
    printf -v list '; %s' "${missing[@]}"
    fail_machine "a node cannot run here, it lacks: ${list:2}"
}

check_programs() {
    local -a absent=()
    mapfile -t absent < <(missing_programs "${node_programs[@]}")
    "$here/../etcd.sh" find >/dev/null || absent+=(etcd)
    if ((${#absent[@]} > 0)) && ! command -v apt-get >/dev/null; then
        missing+=("${absent[*]} (and apt-get to install them: this is neither Debian nor Ubuntu)")
    fi
    if ! kube_is_built && ! command -v go >/dev/null; then
        missing+=("Go, to build Kubernetes")
    fi
}

check_namespaces() {
    if ! unshare --mount mount -t tmpfs tmpfs /mnt 2>/dev/null; then
        missing+=("the right to mount (CAP_SYS_ADMIN; a container must be privileged)")
        return
    fi
    unshare --mount sh -c 'mount -t tmpfs tmpfs /mnt && mkdir /mnt/l /mnt/u /mnt/w /mnt/m &&
		mount -t overlay -o lowerdir=/mnt/l,upperdir=/mnt/u,workdir=/mnt/w overlay /mnt/m' 2>/dev/null ||
        missing+=("overlay mounts (kernel module overlay)")
    if ! unshare --net true 2>/dev/null; then
        missing+=("the right to make network namespaces")
        return
    fi
    if command -v ip >/dev/null; then
        unshare --net ip link add type veth 2>/dev/null || missing+=("veth links (kernel module veth)")
        unshare --net ip link add type bridge 2>/dev/null || missing+=("bridge links (kernel module bridge)")
    fi
    if command -v nft >/dev/null; then
        unshare --net nft 'add table ip t; add chain ip t c { type nat hook prerouting priority 0; }' 2>/dev/null ||
            missing+=("nftables with NAT (kernel module nf_tables)")
    fi
}

check_cgroups() {
    local controller
    for controller in cpu cpuset memory pids; do
        if [[ -f /sys/fs/cgroup/cgroup.controllers ]]; then
            grep -qw "$controller" /sys/fs/cgroup/cgroup.controllers
        else
            [[ -d /sys/fs/cgroup/$controller ]]
        fi || missing+=("cgroup controller $controller")
    done
    local probe
    probe=$(tracking_hierarchy)/$cgroup-probe-$$
    if ! { mkdir "$probe" && rmdir "$probe"; } 2>/dev/null; then
        missing+=("writable cgroups in /sys/fs/cgroup")
    fi
}

check_kernel_files() {
    [[ -w /proc/sys/net/ipv4/ip_forward ]] || missing+=("writable sysctls in /proc/sys")
    [[ -c /dev/kmsg ]] || missing+=("/dev/kmsg")
}

# require_no_other_node refuses to start beside another Kubernetes node: both would own the same nftables
# tables and the same socket, and perhaps the same addresses.
require_no_other_node() {
    [[ -d $state ]] && return
    if nft list table ip kube-proxy >/dev/null 2>&1 || [[ -e /var/lib/kubelet/device-plugins/kubelet.sock ]]; then
        fail_machine "another Kubernetes node runs on this machine"
    fi
    local cidr
    for cidr in "$pod_cidr" "$service_cidr"; do
        if [[ -n $(ip -4 route show root "$cidr") ]]; then
            fail_machine "addresses of $cidr are already in use on this machine: $(ip -4 route show root "$cidr" | head -1)"
        fi
    done
}
