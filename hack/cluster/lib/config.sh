# The configuration files of the components that have one. Sourced by cluster.sh.
# shellcheck shell=bash

config=$state/config

write_configs() {
    mkdir -p "$config"
    write_kubeconfig "$kubeconfig" admin
    local name
    for name in kube-controller-manager kube-scheduler kube-proxy kubelet; do
        write_kubeconfig "$config/$name.kubeconfig" "$name"
    done
    write_node_configs
}

write_node_configs() {
    write_containerd_config
    write_cni_config
    write_kubelet_config
    write_kube_proxy_config
}

# restrict_oom_score_adj: where the machine lacks CAP_SYS_RESOURCE, containers could not start otherwise.
write_containerd_config() {
    put "$config/containerd.toml" <<-END
		version = 2
		root = "$state/containerd"
		state = "$run/containerd"
		[grpc]
		  address = "$containerd_socket"
		[ttrpc]
		  address = "$containerd_socket.ttrpc"
		[plugins."io.containerd.internal.v1.opt"]
		  path = "$state/containerd/opt"
		[plugins."io.containerd.grpc.v1.cri"]
		  sandbox_image = "$pause_image"
		  restrict_oom_score_adj = true
		  netns_mounts_under_state_dir = true
		[plugins."io.containerd.grpc.v1.cri".cni]
		  bin_dir = "$(cni_dir)"
		  conf_dir = "$config/cni"
		[plugins."io.containerd.grpc.v1.cri".containerd]
		  discard_unpacked_layers = true
		[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
		  runtime_type = "io.containerd.runc.v2"
		[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
		  Root = "$run/runc"
		  SystemdCgroup = false
	END
}

# Every pod gets a link of its own to the node (ptp), no bridge: then all its traffic is routed, and answers
# that bypass the translation of Service addresses cannot happen.
write_cni_config() {
    local network=${pod_cidr%.0.0/16}
    mkdir -p "$config/cni"
    put "$config/cni/10-gateway.conflist" <<-END
		{
		  "cniVersion": "0.4.0",
		  "name": "gateway-cluster",
		  "plugins": [{
		    "type": "ptp",
		    "ipam": {
		      "type": "host-local",
		      "dataDir": "$run/cni",
		      "ranges": [[{"subnet": "$pod_cidr", "rangeStart": "$network.$((64 * (number - 1))).10",
		                  "rangeEnd": "$network.$((64 * number - 1)).254", "gateway": "$node_ip"}]],
		      "routes": [{"dst": "0.0.0.0/0"}]
		    }
		  }, {
		    "type": "portmap",
		    "capabilities": {"portMappings": true},
		    "snat": false
		  }]
		}
	END
}

# There is no DNS in the cluster. The name server given to pods is their own loopback, where a lookup is
# refused at once; without one, kubelet would warn about every pod and hand out the machine's.
# A nearly full disk must neither evict pods nor delete images that cannot be pulled again.
write_kubelet_config() {
    put "$config/kubelet.yaml" <<-END
		apiVersion: kubelet.config.k8s.io/v1beta1
		kind: KubeletConfiguration
		address: $node_ip
		healthzBindAddress: 127.0.0.1
		tlsCertFile: $pki/kubelet.crt
		tlsPrivateKeyFile: $pki/kubelet.key
		authentication:
		  anonymous: {enabled: false}
		  webhook: {enabled: true}
		  x509: {clientCAFile: $pki/ca.crt}
		authorization: {mode: Webhook}
		containerRuntimeEndpoint: unix://$containerd_socket
		cgroupDriver: cgroupfs
		cgroupRoot: /$cgroup
		failCgroupV1: false
		failSwapOn: false
		oomScoreAdj: 0
		makeIPTablesUtilChains: false
		clusterDNS: [127.0.0.1]
		clusterDomain: cluster.local
		maxPods: 250
		kubeAPIQPS: 200
		kubeAPIBurst: 400
		podLogsDir: $logs/pods
		volumePluginDir: $state/kubelet/volume-plugins
		evictionHard: {memory.available: 50Mi}
		imageGCHighThresholdPercent: 100
	END
}

# Conntrack settings of the machine are not the cluster's to change: 0 leaves each as it is.
write_kube_proxy_config() {
    put "$config/kube-proxy.yaml" <<-END
		apiVersion: kubeproxy.config.k8s.io/v1alpha1
		kind: KubeProxyConfiguration
		mode: nftables
		hostnameOverride: $node
		clusterCIDR: $pod_cidr
		clientConnection: {kubeconfig: $config/kube-proxy.kubeconfig}
		healthzBindAddress: 127.0.0.1:10256
		metricsBindAddress: 127.0.0.1:10249
		oomScoreAdj: 0
		conntrack:
		  maxPerCore: 0
		  min: 0
		  tcpEstablishedTimeout: 0s
		  tcpCloseWaitTimeout: 0s
		  udpTimeout: 0s
		  udpStreamTimeout: 0s
	END
}
