# Nodes beside the first one. Each has a network namespace, directories, a containerd and cgroups of its own; all nodes
# are ports of one bridge. Sourced by cluster.sh.
# shellcheck shell=bash

most_nodes=4
# What a program of the node starts with; a node beside the first enters its network.
in_node=()
# Nodes count from 1; each has a quarter of the addresses of pods.
number=1

# on_node NUMBER COMMAND... runs a function as if that node was the only one.
on_node() {
    [[ $1 == [1-$most_nodes] ]] || fail_usage "there is no node $1"
    local number=$1
    if ((number == 1)); then
        "${@:2}"
        return
    fi
    local first_pki=$pki daemons=
    local node=$node-$number node_ip=${node_ip%.*}.$number
    local state=$state/node-$number run=$run/node-$number logs=$logs/node-$number cgroup=$cgroup/node-$number
    local config=$state/config pki=$state/pki containerd_socket=$run/containerd.sock
    local -a in_node=(nsenter --net="/run/netns/$node")
    "${@:2}"
}

# count_nodes prints how many nodes there are to be: as many as NODES says, or else as there are.
count_nodes() {
    local -a more=("$state"/node-*)
    [[ -e ${more[0]} ]] || more=()
    echo "${NODES:-$((1 + ${#more[@]}))}"
}

for_each_node() {
    local each
    for ((each = 1; each <= $(count_nodes); each++)); do
        on_node "$each" "$@"
    done
}

# start_more_nodes starts the nodes beside the first one. Each node of several is in a zone of its own.
start_more_nodes() {
    local each count
    count=$(count_nodes)
    ((count > 1)) || return 0
    for ((each = 2; each <= count; each++)); do
        on_node "$each" start_another_node
    done
    for_each_node set_zone
}

start_another_node() {
    mkdir -p "$state" "$run" "$logs" "$config"
    prepare_node_network
    prepare_cgroups
    make_node_pki
    write_kubeconfig "$config/kubelet.kubeconfig" kubelet
    write_kubeconfig "$config/kube-proxy.kubeconfig" kube-proxy
    write_node_configs
    start_containerd
    wait_for containerd 30 ctr_here version
    load_pause
    start_kubelet
}

set_zone() {
    local zones=abcd
    api label --overwrite node "$node" "topology.kubernetes.io/zone=${zones:number-1:1}" >/dev/null
}

# pods_of NUMBER prints the addresses of the pods of a node.
pods_of() {
    echo "${pod_cidr%.0.0/16}.$((64 * ($1 - 1))).0/18"
}

# prepare_node_network makes a network namespace whose one link is a port of the bridge, with routes to the pods of the
# other nodes.
prepare_node_network() {
    local port=${link%0}$number other
    if [[ ! -e /run/netns/$node ]]; then
        ip netns add "$node"
        ip link add "$port" type veth peer name eth0 netns "$node"
    fi
    # Without this, the bridge takes the address of one of its ports, and another one when ports come and go.
    ip link set "$link" address "$(<"/sys/class/net/$link/address")"
    ip link set "$port" master "$link" up
    # What passes the bridge is not for the Services of the first node.
    sysctl -qw --ignore net.bridge.bridge-nf-call-iptables=0
    ip route replace "$node_ip" dev "$link" src "$api_ip"
    ip route replace "$(pods_of "$number")" via "$node_ip" dev "$link" src "$api_ip"
    local -a inside=(ip -n "$node")
    "${inside[@]}" link set lo up
    "${inside[@]}" addr replace "$node_ip/32" dev eth0
    "${inside[@]}" link set eth0 up
    "${inside[@]}" route replace "${api_ip%.*}.0/29" dev eth0 src "$node_ip"
    "${inside[@]}" route replace default via "$api_ip" dev eth0 src "$node_ip"
    for ((other = 2; other <= most_nodes; other++)); do
        ((other == number)) || "${inside[@]}" route replace "$(pods_of "$other")" via "${api_ip%.*}.$other" dev eth0 src "$node_ip"
    done
    "${inside[@]}" route replace unreachable "$(pods_of "$number")"
    "${in_node[@]}" sysctl -qw net.ipv4.ip_forward=1
}

# networks prints the network namespaces of the nodes.
networks() {
    ip netns list 2>/dev/null | awk -v node="$node-" 'index($1, node) == 1 {print $1}'
}

# make_node_pki makes what a kubelet shows, by the authority of the cluster.
make_node_pki() {
    [[ -d $pki ]] && return
    local unfinished
    unfinished=$(umask 077 && mktemp -d "$state/pki.XXXXXX")
    cp "$first_pki"/{ca,kube-proxy}.{crt,key} "$first_pki/openssl.cnf" "$unfinished"
    (cd "$unfinished" && new_kubelet) >"$logs/pki.log" 2>&1 || {
        cat "$logs/pki.log" >&2
        fail "failed to make the certificate of $node"
    }
    mv "$unfinished" "$pki"
}
