# Certificates and kubeconfigs. Sourced by cluster.sh.
# shellcheck shell=bash

pki=$state/pki

# make_pki makes all of it, once: one authority for every component, good for ten years and for this
# machine only. Whatever reads a key runs as root, so only root may read it.
make_pki() {
    [[ -d $pki ]] && return
    say "making certificates"
    local unfinished
    unfinished=$(umask 077 && mktemp -d "$state/pki.XXXXXX")
    (
        cd "$unfinished"
        printf '[req]\ndistinguished_name=dn\n[dn]\n' >openssl.cnf
        new_certificate ca "/CN=gateway-cluster" "critical,CA:TRUE" "critical,keyCertSign,cRLSign"
        new_leaf etcd "/CN=etcd" IP:127.0.0.1
        new_leaf kube-apiserver "/O=system:masters/CN=kube-apiserver" \
            "IP:$node_ip,IP:${service_cidr%.*}.1,IP:127.0.0.1,DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc"
        new_kubelet
        new_leaf kube-controller-manager "/CN=system:kube-controller-manager"
        new_leaf kube-scheduler "/CN=system:kube-scheduler"
        new_leaf kube-proxy "/CN=system:kube-proxy"
        new_leaf admin "/O=system:masters/CN=admin"
        openssl ecparam -genkey -name prime256v1 -noout -out service-accounts.key
        openssl ec -in service-accounts.key -pubout -out service-accounts.pub
    ) >"$logs/pki.log" 2>&1 || {
        cat "$logs/pki.log" >&2
        fail "failed to make certificates"
    }
    mv "$unfinished" "$pki"
}

new_kubelet() {
    new_leaf kubelet "/O=system:nodes/CN=system:node:$node" "IP:$node_ip,DNS:$node"
}

# new_leaf NAME SUBJECT [ALTERNATIVE_NAMES] makes NAME.key and NAME.crt for a client and, with names, a server.
new_leaf() {
    new_certificate "$1" "$2" "critical,CA:FALSE" "critical,digitalSignature" \
        -CA ca.crt -CAkey ca.key -addext "extendedKeyUsage=clientAuth,serverAuth" \
        ${3:+-addext "subjectAltName=$3"}
}

# new_certificate NAME SUBJECT CONSTRAINTS USAGE [OPTION...]
new_certificate() {
    local name=$1 subject=$2 constraints=$3 usage=$4
    shift 4
    openssl req -x509 -config openssl.cnf -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 \
        -keyout "$name.key" -out "$name.crt" -subj "$subject" \
        -addext "basicConstraints=$constraints" -addext "keyUsage=$usage" "$@"
}

# write_kubeconfig FILE NAME writes one with the certificate NAME inside, so that it works wherever it is copied.
write_kubeconfig() {
    local file=$1 name=$2
    put "$file" <<END
apiVersion: v1
kind: Config
current-context: gateway-cluster
contexts:
- name: gateway-cluster
  context: {cluster: gateway-cluster, user: $name}
clusters:
- name: gateway-cluster
  cluster:
    server: https://$api_ip:$api_port
    certificate-authority-data: $(base64 -w0 "$pki/ca.crt")
users:
- name: $name
  user:
    client-certificate-data: $(base64 -w0 "$pki/$name.crt")
    client-key-data: $(base64 -w0 "$pki/$name.key")
END
}
