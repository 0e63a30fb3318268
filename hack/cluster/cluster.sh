#!/usr/bin/env bash
# A Kubernetes cluster of one node, or a few, on this machine, real down to the kubelet; "help" says how to use it.
#
# Everything it makes is inside the directories, the network links, the network namespaces, the address ranges and the
# cgroup named below, so that it meets nothing else on the machine and "down" can remove all of it.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
kube_version=$(sed -n 's/^\tk8s.io\/kubernetes \(v[0-9.]*\)$/\1/p' "$here/kube/go.mod")
cache=${XDG_CACHE_HOME:-${HOME:?}/.cache}/gateway
kube_dir=$cache/kube-$kube_version
bin=$kube_dir/bin

state=/var/lib/gateway-cluster
run=/run/gateway-cluster
logs=/var/log/gateway-cluster
cgroup=gateway-cluster
link=gw0
node=gateway-node
# The node's own address. It exists on this machine only, so the cluster needs no network and nobody on the
# network can reach the cluster.
node_ip=10.244.0.1
api_ip=$node_ip
pod_cidr=10.244.0.0/16
service_cidr=10.96.0.0/16
api_port=6443
kubeconfig=$state/kubeconfig
containerd_socket=$run/containerd.sock

# Programs of Debian live in sbin; Go's own installer puts it where sudo does not look.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin:/usr/local/go/bin

# What exit codes say: 1 something failed, 2 wrong usage, 3 this machine cannot do it.
readonly exit_usage=2 exit_machine=3

# shellcheck source=lib/common.sh
source "$here/lib/common.sh"
# shellcheck source=lib/check.sh
source "$here/lib/check.sh"
# shellcheck source=lib/assets.sh
source "$here/lib/assets.sh"
# shellcheck source=lib/pki.sh
source "$here/lib/pki.sh"
# shellcheck source=lib/config.sh
source "$here/lib/config.sh"
# shellcheck source=lib/host.sh
source "$here/lib/host.sh"
# shellcheck source=lib/node.sh
source "$here/lib/node.sh"
# shellcheck source=lib/more.sh
source "$here/lib/more.sh"
# shellcheck source=lib/down.sh
source "$here/lib/down.sh"

usage() {
    cat <<END
A Kubernetes $kube_version of one node on this machine (Debian or Ubuntu, as root).

usage: cluster.sh COMMAND

  up             start the cluster, or what is missing of it; does nothing if all of it runs. With NODES=3, it has
                 three nodes, each but the first in a network namespace, $node-2 and so on; more are not possible.
                 FEATURE_GATES=NAME=true sets feature gates of the API server and the controllers
  down           stop it and remove every trace of it but the cache
  kill NAME      end one of these at once, as a crash does: etcd containerd kube-apiserver
                 kube-controller-manager kube-scheduler kubelet kube-proxy; "up" starts it again.
                 containerd, kubelet and kube-proxy of another node: kill NAME 2
  restart NAME   end it and start it again
  load IMAGE...  make images known to all nodes: docker-archive files, or names of images in Docker
  kubeconfig     print the path of the administrator's kubeconfig
  assets         print a directory with kube-apiserver, etcd, kubectl and the rest, built if need be
  check          say whether a node can run on this machine
  help           print this

"assets" needs neither root nor a running cluster; it fits KUBEBUILDER_ASSETS.
Progress goes to standard error. Exit codes: 1 failure, 2 wrong usage, 3 this machine cannot do it
(one line says what is missing).

  export KUBECONFIG=\$($0 kubeconfig)
  export PATH=\$($0 assets):\$PATH
  kubectl get nodes

  cache   $cache
  state   $state
  logs    $logs
  API     https://$api_ip:$api_port  pods $pod_cidr  services $service_cidr
END
}

up() {
    require_node
    install_packages "${node_programs[@]}"
    require_node
    build_kube
    build_pause
    lock "$cache"
    require_no_other_node
    prepare_host
    make_pki
    write_configs
    start_node
    start_more_nodes
    say "the cluster is up; use it with"
    echo "    export KUBECONFIG=$kubeconfig PATH=$bin:\$PATH" >&2
}

main() {
    local command=${1:-}
    case $command in
    help | -h | --help)
        usage
        ;;
    up | down | kubeconfig | assets | check)
        (($# == 1)) || fail_usage "$command takes no arguments"
        "$command"
        ;;
    kill | restart)
        (($# == 2 || $# == 3)) || fail_usage "$command needs the name of one component"
        on_node "${3:-1}" kill_component "$2"
        [[ $command == kill ]] || up
        ;;
    load)
        shift
        (($# > 0)) || fail_usage "load needs the images to load"
        for_each_node load "$@"
        ;;
    *)
        fail_usage "unknown command: ${command:-none given}"
        ;;
    esac
}

kubeconfig() {
    [[ -d $state ]] || fail "no cluster is up; start one with: $0 up"
    echo "$kubeconfig"
}

assets() {
    build_kube
    echo "$bin"
}

check() {
    require_node
    say "a node can run on this machine"
}

# Sourced, it only defines its functions.
if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
    main "$@"
fi
