#!/usr/bin/env bash
# Shows a Gateway at work: a cluster if none is given, the Gateway API, the operator, the example, requests through it, an
# edit of its HTTPRoute. The cluster is DEMO_KUBECONFIG's, or else one of kind, where kind and docker are there, or else a
# one-node Kubernetes that is started here.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=hack/lib.sh
source hack/lib.sh

example=artifacts/gateway-api/demo.yaml
backends=artifacts/examples/shop.yaml
host=shop.example.com

main() {
    need curl curl
    need make make
    prepare_cluster
    deploy
    reach_gateway
    send_requests
    report
    change_split
    how_to_go_on
}

# prepare_cluster sets KUBECONFIG and $cluster: given, kind or node. In the latter two it builds and loads the images.
prepare_cluster() {
    [[ -n ${DEMO_KUBECONFIG:-} ]] || { need_go && tell_what_takes_long; }
    use_cluster DEMO_KUBECONFIG ||
        fail "no cluster can be started here, see above. README.md says how to use one that you have"
    load_images
}

# tell_what_takes_long says what to do while Kubernetes is compiled, which it is once, where there is no kind.
tell_what_takes_long() {
    ! has_kind && [[ -z $(compgen -G "$(cached 'kube-*/bin/kube')") ]] || return 0
    say "There is no kind here, so Kubernetes is compiled first, once: see below. All other steps take some two minutes"
    echo "Meanwhile, see in another terminal how edits of a file go live, without Kubernetes: make try"
}

kubectl() { hack/kubectl.sh "$@"; }

deploy() {
    install_gateway_api
    say "Deploying the operator from artifacts/"
    make --no-print-directory -s deploy
    kubectl apply --server-side -f artifacts/gateway-api/gatewayclass.yaml
    say "Applying $example, and its backends"
    only_backends | kubectl apply --server-side --force-conflicts -f -
    kubectl apply --server-side --force-conflicts -f "$example"
    say "Waiting until the Gateway is Programmed: every ready proxy runs its latest generation"
    local applied=$EPOCHREALTIME
    for deployment in echo-v1 echo-v2; do
        kubectl -n shop rollout status "deployment/$deployment" --timeout=120s
    done
    kubectl -n shop wait gateways.gateway.networking.k8s.io/shop --for=condition=Programmed --timeout=120s
    kubectl -n shop rollout status deployment/shop-gateway --timeout=120s
    echo "Ready $(seconds_since "$applied") s after kubectl apply returned."
}

# install_gateway_api installs the CRDs of the Gateway API's standard channel, unless the cluster has some.
install_gateway_api() {
    [[ -z $(kubectl get crd httproutes.gateway.networking.k8s.io --ignore-not-found -o name) ]] || return 0
    say "Installing the CRDs of the Gateway API"
    need_go
    kubectl apply --server-side -f "$(go list -m -f '{{.Dir}}' sigs.k8s.io/gateway-api)/config/crd/standard"
}

# only_backends prints the objects of $backends but for the Gateway of our own kind, with the image that was built.
only_backends() {
    awk -v RS='---\n' '!/\nkind: Gateway\n/ {print "---"; print}' "$backends" | sed "s|gateway-echo:dev|${ECHO_IMG:-gateway-echo:dev}|"
}

# reach_gateway sets $address: the Gateway's own where the node is this machine, else a forwarded port.
reach_gateway() {
    if [[ $cluster == node ]]; then
        address=$(kubectl -n shop get gateways.gateway.networking.k8s.io shop -o 'jsonpath={.status.addresses[0].value}')
        return
    fi
    # Not the function: killing its subshell would leave the program running.
    hack/kubectl.sh -n shop port-forward service/shop-gateway 18080:80 >/dev/null 2>&1 &
    forward=$!
    trap 'kill "$forward" 2>/dev/null || true' EXIT
    address=127.0.0.1:18080
    curl -sS -o /dev/null --retry 20 --retry-connrefused --retry-delay 1 "http://$address/"
}

send_requests() {
    say "Sending requests through the Gateway at http://$address"
    # On a node that has just started, kube-proxy may learn of the Service's endpoints a moment after everyone else.
    local tries=100
    until curl -s -o /dev/null --connect-timeout 1 "http://$address/" || ((--tries == 0)); do
        sleep 0.1
    done
    show shop.example.com /
    for _ in 1 2 3; do show shop.example.com /login; done
    show elsewhere.example.com /
    echo
    echo "The namespace team has its hostname by a ListenerSet:"
    show team.example.com /
    local answers
    answers=$(curl -s -H "Host: $host" "http://$address/?request=[1-500]")
    echo
    echo "500 requests to http://$host/, which is split 90 to 10:"
    for version in v1 v2; do
        printf '  %s answered %s\n' "$version" "$(grep -o "\"version\":\"$version\"" <<<"$answers" | wc -l)"
    done
}

# show HOST PATH: one request and who answered it.
show() {
    local body status
    body=$(curl -s -w '\n%{http_code}' -H "Host: $1" "http://$address$2")
    status=${body##*$'\n'}
    body=${body%$'\n'*}
    body=${body%$'\n'}
    if [[ $status == 200 ]]; then
        body="from $(sed -E 's/.*"version":"([^"]*)".*/\1/' <<<"$body"), pod $(sed -E 's/.*"pod":"([^"]*)".*/\1/' <<<"$body")"
    fi
    printf '  GET http://%-40s %s  %s\n' "$1$2" "$status" "$body"
}

report() {
    say "The Gateway, its ListenerSet, the status of the HTTPRoute, and the pods"
    kubectl -n shop get gateways.gateway.networking.k8s.io shop
    echo
    kubectl -n team get listenersets
    echo
    kubectl -n shop get httproute shop \
        -o 'go-template={{range .status.parents}}{{range .conditions}}{{printf "%-14s %-6s %s\n" .type .status .message}}{{end}}{{end}}'
    echo
    kubectl -n shop get pods -o wide
}

# change_split sends everything to v2 and prints how long v1 still answered.
change_split() {
    say "Editing the HTTPRoute's split to 0 to 100 with kubectl patch, while asking who answers"
    local answers begin patched last
    answers=$(mktemp)
    (
        while [[ -e $answers ]]; do
            version=$(curl -s -H "Host: $host" "http://$address/" | sed -E 's/.*"version":"([^"]*)".*/\1/')
            [[ ! -e $answers ]] || echo "$EPOCHREALTIME $version" >>"$answers"
        done
    ) &
    begin=$EPOCHREALTIME
    kubectl -n shop patch httproute shop --type=json -p '[
        {"op": "replace", "path": "/spec/rules/0/backendRefs/0/weight", "value": 0},
        {"op": "replace", "path": "/spec/rules/0/backendRefs/1/weight", "value": 100}]'
    patched=$EPOCHREALTIME
    kubectl -n shop wait httproute/shop --timeout=30s \
        --for=jsonpath='{.status.parents[0].conditions[?(@.type=="Programmed")].observedGeneration}'="$(kubectl -n shop get httproute shop -o 'jsonpath={.metadata.generation}')"
    last=$(awk '$2 == "v1" {t = $1} END {printf "%.6f", t}' "$answers")
    echo "Requests sent meanwhile: $(wc -l <"$answers"), not answered by v1 or v2: $(grep -cv ' v[12]$' "$answers" || true)"
    if awk "BEGIN {exit !($last > $patched)}"; then
        echo "The last answer by v1 came $(awk "BEGIN {printf \"%.3f\", $last - $patched}") s after kubectl patch returned."
    else
        echo "The new split was live before kubectl patch returned ($(awk "BEGIN {printf \"%.3f\", $patched - $begin}") s)."
    fi
    rm -f "$answers"
    wait %% 2>/dev/null || true
}

seconds_since() { awk "BEGIN {printf \"%.1f\", $EPOCHREALTIME - $1}"; }

how_to_go_on() {
    say "Done. To play on:"
    echo "  export KUBECONFIG=$KUBECONFIG"
    [[ $cluster == node ]] || echo "  hack/kubectl.sh -n shop port-forward service/shop-gateway ${address##*:}:80 &"
    cat <<TEXT
  hack/kubectl.sh -n shop edit httproute shop
  hack/kubectl.sh -n shop logs deployment/shop-gateway -c haproxy -f
  curl -H 'Host: $host' http://$address/
To remove everything:
TEXT
    case $cluster in
    node) echo "  hack/cluster/cluster.sh down" ;;
    kind) echo "  kind delete cluster --name $kind_name" ;;
    given) echo "  hack/kubectl.sh delete -f $example -f $backends && make undeploy uninstall" ;;
    esac
}

main "$@"
