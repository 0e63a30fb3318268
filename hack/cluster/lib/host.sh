# What the cluster needs of the machine besides programs: a link, routes, kernel settings, cgroups. Sourced
# by cluster.sh. Each function makes what is missing and leaves what is there.
# shellcheck shell=bash

prepare_host() {
    mkdir -p "$state" "$run" "$logs"
    save_sysctls
    prepare_network
    prepare_cgroups
    # Proxies hold many connections; what root may have, pods may have.
    ulimit -Sn "$(ulimit -Hn)"
}

# Kernel settings that kubelet changes, and forwarding. "down" puts back what was there.
changed_sysctls=(
    net.ipv4.ip_forward vm.overcommit_memory vm.panic_on_oom kernel.panic kernel.panic_on_oops
    kernel.keys.root_maxkeys kernel.keys.root_maxbytes net.bridge.bridge-nf-call-iptables
)

# save_sysctls keeps the values of this boot: after a reboot, the machine's own are back.
save_sysctls() {
    local boot saved=$state/sysctls
    boot=$(</proc/sys/kernel/random/boot_id)
    if [[ ! -f $saved ]] || ! grep -qx "# $boot" "$saved"; then
        {
            echo "# $boot"
            sysctl --ignore "${changed_sysctls[@]}"
        } >"$saved.new"
        mv "$saved.new" "$saved"
    fi
    sysctl -qw net.ipv4.ip_forward=1
}

restore_sysctls() {
    local saved=$state/sysctls
    if [[ -f $saved ]] && grep -qx "# $(</proc/sys/kernel/random/boot_id)" "$saved"; then
        sysctl -q -p "$saved"
    fi
}

# prepare_network gives the node its address, on a bridge that has no ports and serves as a place for it.
# Service addresses are routed there so that they work on a machine without any other route; what kube-proxy
# does not translate ends there. Addresses of pods that are gone are unreachable rather than somebody else's.
prepare_network() {
    ip link show "$link" >/dev/null 2>&1 || ip link add "$link" type bridge
    ip addr replace "$node_ip/32" dev "$link"
    ip link set "$link" up
    ip route replace "$service_cidr" dev "$link" src "$node_ip"
    ip route replace unreachable "$pod_cidr"
    local rule
    while read -r rule; do
        # shellcheck disable=SC2086 # a rule is words
        iptables -C ${rule} 2>/dev/null || iptables -I ${rule}
    done < <(firewall_rules)
}

# firewall_rules prints the iptables rules that let pods through a firewall which drops what it does not
# know, as Docker's and ufw's do; nothing on a machine without one.
firewall_rules() {
    command -v iptables >/dev/null || return 0
    local chain
    for chain in INPUT FORWARD; do
        if iptables -S "$chain" 2>/dev/null | grep -qx -e "-P $chain DROP"; then
            echo "$chain -s $pod_cidr -j ACCEPT"
            [[ $chain == INPUT ]] || echo "$chain -d $pod_cidr -j ACCEPT"
        fi
    done
}

restore_network() {
    local rule device
    while read -r rule; do
        # shellcheck disable=SC2086 # a rule is words
        iptables -D ${rule} 2>/dev/null || true
    done < <(firewall_rules)
    for device in $(pod_links); do
        ip link del "$device" 2>/dev/null || true
    done
    for device in $(networks); do
        ip netns del "$device"
    done
    if ip link show "$link" >/dev/null 2>&1; then
        ip link del "$link"
    fi
    ip route del unreachable "$pod_cidr" 2>/dev/null || true
    remove_host_ports
    local family
    for family in ip ip6; do
        nft delete table "$family" kube-proxy 2>/dev/null || true
    done
}

# host_ports prints the number and the chain of each rule that the CNI plugin portmap made for a pod of the cluster, the
# last one first.
host_ports() {
    iptables -t nat -nL CNI-HOSTPORT-DNAT --line-numbers 2>/dev/null | awk '/gateway-cluster/ {print $1, $2}' | sort -rn || true
}

# remove_host_ports removes these rules, and what leads to them if nobody else has some.
remove_host_ports() {
    local number own chain=CNI-HOSTPORT-DNAT
    while read -r number own; do
        iptables -t nat -D "$chain" "$number"
        iptables -t nat -F "$own"
        iptables -t nat -X "$own"
    done < <(host_ports)
    if [[ $(iptables -t nat -S "$chain" 2>/dev/null) == "-N $chain" ]]; then
        iptables -t nat -D PREROUTING -m addrtype --dst-type LOCAL -j "$chain"
        iptables -t nat -D OUTPUT -m addrtype --dst-type LOCAL -j "$chain"
        iptables -t nat -X "$chain"
    fi
}

# pod_links prints the node's ends of the pods' links: those that routes to pods use.
pod_links() {
    ip -4 route show root "$pod_cidr" | sed -n 's/.* dev \(veth[^ ]*\).*/\1/p' | sort -u
}

# tracking_hierarchy prints the cgroup hierarchy that says which processes are the cluster's: the second
# version's, alone or beside the first, else one of the first.
tracking_hierarchy() {
    if [[ -f /sys/fs/cgroup/cgroup.procs ]]; then
        echo /sys/fs/cgroup
    elif [[ -f /sys/fs/cgroup/unified/cgroup.procs ]]; then
        echo /sys/fs/cgroup/unified
    else
        echo /sys/fs/cgroup/pids
    fi
}

# hierarchies prints every cgroup hierarchy: one in the second version, one for each controller in the first.
hierarchies() {
    local dir
    if [[ -f /sys/fs/cgroup/cgroup.procs ]]; then
        echo /sys/fs/cgroup
        return
    fi
    for dir in /sys/fs/cgroup/*/; do
        [[ -L ${dir%/} ]] || echo "${dir%/}"
    done
}

# prepare_cgroups makes the cgroup of all pods and, in the tracking hierarchy, the one of the daemons: every
# process of the cluster can be found, and ended, through them.
prepare_cgroups() {
    local hierarchy controller file
    for hierarchy in $(hierarchies); do
        mkdir -p "$hierarchy/$cgroup"
        for file in cpuset.cpus cpuset.mems; do
            # In the first version a new cpuset is empty and takes no process until it is filled.
            if [[ -f $hierarchy/$file && ! -f $hierarchy/cgroup.controllers ]]; then
                cat "$hierarchy/$file" >"$hierarchy/$cgroup/$file"
            fi
        done
    done
    if [[ -f /sys/fs/cgroup/cgroup.subtree_control ]]; then
        for controller in $(</sys/fs/cgroup/cgroup.controllers); do
            echo "+$controller" >/sys/fs/cgroup/cgroup.subtree_control 2>/dev/null || true
            echo "+$controller" >"/sys/fs/cgroup/$cgroup/cgroup.subtree_control" 2>/dev/null || true
        done
    fi
    daemons=$(tracking_hierarchy)/$cgroup/daemons
    mkdir -p "$daemons"
}
