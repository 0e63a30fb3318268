package ingress

import "strings"

// Flag is what takes the place of flags of ingress-nginx's controller.
type Flag struct {
	// Names are separated by spaces.
	Names string
	Text  string
	// IsNoted reports whether users of the flag have something to do, or get something else.
	IsNoted bool
}

// Flags are all of the controller, in the order of the documentation here.
var Flags = []Flag{
	{"default-ssl-certificate", "convert takes it from the controller's Deployment, or by its flag of this name; for the operator, it is a key of the class's ConfigMap", false},
	{"default-backend-service", "make an Ingress of the class with this Service as defaultBackend, in the namespace of the Service, and without rules", true},
	{"tcp-services-configmap", "make a Gateway with listeners of protocol TCP, and TCPRoutes", true},
	{"udp-services-configmap", "HAProxy does not proxy UDP: give these Services the type LoadBalancer", true},
	{"configmap", "convert takes it from the controller's Deployment, or by its flag of this name; for the operator, it is in parameters of the IngressClass", false},
	{
		"controller-class ingress-class ingress-class-by-name",
		"the operator serves IngressClasses with the controller app.example.com/ingress; convert takes all, or the one of its flag --class", false,
	},
	{"watch-ingress-without-class", "name the class in Ingresses: the operator leaves those without one to others, and convert makes a Gateway for them", true},
	{"watch-namespace watch-namespace-selector", "Ingresses of all namespaces count, by their class: give some another class", true},
	{"annotations-prefix", "annotations with another prefix than nginx.ingress.kubernetes.io are not carried over: rename them", true},
	{"enable-ssl-passthrough", "the annotation ssl-passthrough needs no flag", false},
	{"ssl-passthrough-proxy-port", "connections are passed through on the port of the listener", false},
	{"enable-ssl-chain-completion", "put certificates of intermediate authorities into the Secrets", true},
	{"disable-catch-all", "Ingresses without a host, and without rules, are served: give them another class", true},
	{"disable-svc-external-name", "Services of type ExternalName get no requests in any case", false},
	{"enable-topology-aware-routing", "set trafficDistribution of Services to PreferSameZone", true},
	{"publish-service update-status update-status-on-shutdown status-update-interval", "the status of Ingresses has the addresses of the Gateway", false},
	{"publish-status-address report-node-internal-ip-address", "the status of Ingresses has the addresses of the Gateway: external-dns publishes these", true},
	{"http-port https-port default-server-port", "listeners have the ports 80 and 443, whatever ports the pods have", false},
	{"health-check-path", "set the key health-check-path of the ConfigMap if load balancers ask nginx for this path, or for /healthz", true},
	{"health-check-timeout healthz-host healthz-port", "pods of proxies have probes of their own", false},
	{"shutdown-grace-period", "pods.stopDelay of the GatewayConfig", true},
	{"post-shutdown-grace-period", "drainTimeout of the GatewayConfig", false},
	{"maxmind-edition-ids maxmind-license-key maxmind-mirror maxmind-retries-count maxmind-retries-timeout", "there is no database of addresses", true},
	{
		"enable-metrics exclude-socket-metrics metrics-per-host metrics-per-undefined-host report-status-classes monitor-max-batch-size bucket-factor max-buckets " +
			"length-buckets size-buckets time-buckets",
		"proxies have metrics of their own, with other names", false,
	},
	{
		"validating-webhook validating-webhook-certificate validating-webhook-key disable-full-test deep-inspect enable-annotation-validation disable-sync-events",
		"there is no webhook: events of the Ingress tell what cannot be served, and convert tells it before", false,
	},
	{
		"apiserver-host certificate-authority kubeconfig disable-leader-election election-id election-ttl sync-period sync-rate-limit dynamic-configuration-retries " +
			"internal-logger-address profiler-address profiler-port profiling status-port stream-port version",
		"it is about the controller itself", false,
	},
}

// FlagOf returns what takes the place of a flag.
func FlagOf(name string) (Flag, bool) {
	for _, flag := range Flags {
		for other := range strings.FieldsSeq(flag.Names) {
			if other == name {
				return flag, true
			}
		}
	}
	return Flag{}, false
}
