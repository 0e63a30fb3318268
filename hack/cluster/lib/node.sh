# The components of the node, and the images it knows. Sourced by cluster.sh.
# shellcheck shell=bash

# FEATURE_GATES are those of the API server and the controllers: NAME=true,...
gates=(${FEATURE_GATES:+--feature-gates="$FEATURE_GATES"})

# start_node starts what does not run, or runs with another configuration, in the order things depend on
# each other, and waits until pods can run.
start_node() {
    start_etcd
    start_containerd
    start_apiserver
    wait_for containerd 30 ctr_here version
    load_pause
    wait_for kube-apiserver 90 api get --raw /readyz
    start_controllers
    start_kubelet
    wait_for kube-controller-manager 30 api get serviceaccount default --namespace=default
}

start_etcd() {
    start etcd "$bin/etcd" --name=etcd --data-dir="$state/etcd" --logger=zap --log-level=warn \
        --listen-client-urls=https://127.0.0.1:12379 --advertise-client-urls=https://127.0.0.1:12379 \
        --listen-peer-urls=https://127.0.0.1:12380 --initial-advertise-peer-urls=https://127.0.0.1:12380 \
        --initial-cluster=etcd=https://127.0.0.1:12380 \
        --cert-file="$pki/etcd.crt" --key-file="$pki/etcd.key" \
        --client-cert-auth --trusted-ca-file="$pki/ca.crt" \
        --peer-cert-file="$pki/etcd.crt" --peer-key-file="$pki/etcd.key" \
        --peer-client-cert-auth --peer-trusted-ca-file="$pki/ca.crt"
}

start_containerd() {
    # Images are loaded, never pulled: a missing one must fail at once and without asking the internet, so
    # containerd's way there is a proxy that does not exist.
    start containerd "${in_node[@]}" env HTTP_PROXY=http://127.0.0.1:1 HTTPS_PROXY=http://127.0.0.1:1 \
        "$(command -v containerd)" --config="$config/containerd.toml" --log-level=warn
}

# start_kubelet starts what a node has besides containerd, and waits until pods can run on it.
start_kubelet() {
    start kubelet "${in_node[@]}" \
        "$bin/kubelet" --config="$config/kubelet.yaml" --kubeconfig="$config/kubelet.kubeconfig" \
        --hostname-override="$node" --node-ip="$node_ip" --root-dir="$state/kubelet" --cert-dir="$state/kubelet/pki"
    wait_for kubelet 60 api get node "$node"
    start kube-proxy "${in_node[@]}" "$bin/kube-proxy" --config="$config/kube-proxy.yaml"
    wait_for kubelet 60 node_is_ready
    wait_for kubelet 30 kubelet_knows_pods
    wait_for kube-proxy 30 "${in_node[@]}" nft list chain ip kube-proxy services
}

start_apiserver() {
    start kube-apiserver "$bin/kube-apiserver" --bind-address="$node_ip" --advertise-address="$node_ip" \
        --secure-port="$api_port" --cert-dir="$state/kube-apiserver" \
        --tls-cert-file="$pki/kube-apiserver.crt" --tls-private-key-file="$pki/kube-apiserver.key" \
        --client-ca-file="$pki/ca.crt" --authorization-mode=Node,RBAC \
        --enable-admission-plugins=NodeRestriction --allow-privileged \
        --etcd-servers=https://127.0.0.1:12379 --etcd-cafile="$pki/ca.crt" \
        --etcd-certfile="$pki/kube-apiserver.crt" --etcd-keyfile="$pki/kube-apiserver.key" \
        --kubelet-certificate-authority="$pki/ca.crt" --kubelet-preferred-address-types=InternalIP \
        --kubelet-client-certificate="$pki/kube-apiserver.crt" --kubelet-client-key="$pki/kube-apiserver.key" \
        --service-cluster-ip-range="$service_cidr" \
        --service-account-issuer=https://kubernetes.default.svc \
        --service-account-signing-key-file="$pki/service-accounts.key" \
        --service-account-key-file="$pki/service-accounts.pub" \
        --requestheader-client-ca-file="$pki/ca.crt" --requestheader-allowed-names=kube-apiserver \
        --requestheader-username-headers=X-Remote-User --requestheader-group-headers=X-Remote-Group \
        --requestheader-extra-headers-prefix=X-Remote-Extra- \
        --proxy-client-cert-file="$pki/kube-apiserver.crt" --proxy-client-key-file="$pki/kube-apiserver.key" \
        "${gates[@]}"
}

start_controllers() {
    local name common=(--bind-address=127.0.0.1 --leader-elect=false --kube-api-qps=200 --kube-api-burst=400)
    for name in kube-controller-manager kube-scheduler; do
        local file=$config/$name.kubeconfig
        local -a flags=("${common[@]}" --kubeconfig="$file"
            --authentication-kubeconfig="$file" --authorization-kubeconfig="$file")
        if [[ $name == kube-controller-manager ]]; then
            flags+=(--use-service-account-credentials --root-ca-file="$pki/ca.crt"
                --service-account-private-key-file="$pki/service-accounts.key" "${gates[@]}")
        fi
        start "$name" "$bin/$name" "${flags[@]}"
    done
}

# start NAME COMMAND... starts a daemon unless it runs already with this command and configuration.
start() {
    local name=$1 stamp
    shift
    stamp=$({
        printf '%s\n' "$@"
        stat -L -c '%Y %s' "$(command -v "$1")"
        find "$config" -name "*$name*" -type f -exec cat {} +
    } | sha256sum)
    if is_running "$name"; then
        [[ $(<"$run/$name.stamp") == "$stamp" ]] && return
        say "restarting $name: its configuration changed"
        stop "$name"
    else
        say "starting $name"
    fi
    echo "$stamp" >"$run/$name.stamp"
    (
        echo "$BASHPID" >"$daemons/cgroup.procs"
        without_files setsid env -i PATH="$PATH" HOME=/root "$@"
    ) </dev/null >>"$logs/$name.log" 2>&1 &
    echo $! >"$run/$name.pid"
    # Until it is in the cgroup it would pass for stopped.
    wait_until 5 is_running "$name" || true
}

# is_running NAME is true only for our process: a number left by another boot or reused by another program
# is not in the cgroup.
is_running() {
    local pid
    pid=$(cat "$run/$1.pid" 2>/dev/null) && grep -qx "$pid" "$daemons/cgroup.procs"
}

# stop NAME asks a daemon to end and, five seconds later, ends it: the API server alone would take minutes
# while someone watches it.
stop() {
    kill "$(<"$run/$1.pid")" 2>/dev/null || true
    wait_until 5 is_stopped "$1" || kill -KILL "$(<"$run/$1.pid")" 2>/dev/null || true
    wait_until 5 is_stopped "$1" || fail "failed to stop $1"
}

# kill_component NAME ends a component that may be down already. The lock keeps another cluster.sh from starting it meanwhile.
kill_component() {
    ((EUID == 0)) || fail_machine "ending a component needs root (sudo)"
    [[ $1 != */* && -f $run/$1.pid ]] || fail_usage "there is no component $1 here"
    daemons=$(tracking_hierarchy)/$cgroup/daemons
    lock "$cache"
    is_stopped "$1" || kill -KILL "$(<"$run/$1.pid")"
    wait_until 5 is_stopped "$1" || fail "failed to end $1"
}

is_stopped() {
    ! is_running "$1"
}

# wait_for NAME SECONDS COMMAND... waits until the command succeeds; if it does not in time, or the daemon
# ends, shows the end of the daemon's log.
wait_for() {
    local name=$1 seconds=$2
    shift 2
    if ! wait_until "$seconds" succeeded_or_stopped "$name" "$@" || is_stopped "$name"; then
        tail -n 20 "$logs/$name.log" >&2
        fail "$name did not come up (whole log: $logs/$name.log; \"$0 down\" removes everything)"
    fi
}

succeeded_or_stopped() {
    is_stopped "$1" || "${@:2}"
}

api() {
    "$bin/kubectl" --kubeconfig="$kubeconfig" --request-timeout=5s "$@"
}

ctr_here() {
    ctr --address "$containerd_socket" --namespace k8s.io "$@"
}

# node_is_ready wants the word of the kubelet that runs now, not of one before it. It also wants no taint:
# that of a node that is not ready goes a moment later than it is, and until then no pod is scheduled.
node_is_ready() {
    local ready heartbeat taints
    read -r ready heartbeat taints < <(api get node "$node" \
        -o jsonpath='{range .status.conditions[?(@.type=="Ready")]}{.status} {.lastHeartbeatTime}{end} {.spec.taints}') || true
    [[ $ready == True && -z $taints ]] &&
        (($(date -d "$heartbeat" +%s) >= $(stat -c %Y "$run/kubelet.pid")))
}

# kubelet_knows_pods is false for the first second of a kubelet on a node that has pods; until then nothing
# can be asked of them.
kubelet_knows_pods() {
    local pods known
    pods=$(api get pods --all-namespaces --field-selector="spec.nodeName=$node" -o name) || return
    known=$(api get --raw "/api/v1/nodes/$node/proxy/pods") || return
    [[ -z $pods || $known != *'"items":null'* ]]
}

load_pause() {
    [[ -n $(ctr_here images list -q "name==$pause_image") ]] || ctr_here images import "$pause_archive" >/dev/null
}

# load IMAGE... imports images into the node. A name that is no file is asked of Docker.
load() {
    ((EUID == 0)) || fail_machine "loading images needs root (sudo)"
    [[ -S $containerd_socket ]] && ctr_here version >/dev/null 2>&1 ||
        fail "no cluster is up; start one with: $0 up"
    local image
    for image in "$@"; do
        if [[ -f $image ]]; then
            ctr_here images import "$image" >/dev/null || fail "failed to load $image"
        elif command -v docker >/dev/null; then
            docker save "$image" | ctr_here images import - >/dev/null || fail "failed to load $image from Docker"
        else
            fail "failed to load $image: there is no such file, and no Docker to ask for it"
        fi
        say "loaded $image into $node"
    done
}
