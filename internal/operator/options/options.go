// Package options is the operator's command line.
package options

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"gateway/internal/operator/resources"
)

// serviceAccountNamespace is where a pod finds the name of its namespace.
const serviceAccountNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// Options are what the flags say; Usage describes them.
type Options struct {
	Master, Kubeconfig                    string
	KubeAPIQPS                            float64
	Images                                resources.Options
	Namespace, IngressNamespace           string
	Workers                               int
	Resync                                time.Duration
	LeaderElect                           bool
	LeaderElectName, LeaderElectNamespace string
	KeyServerCA                           string
	HealthAddress                         string
	Profiling, Version                    bool
}

// flags returns the flags for o, with their defaults.
func (o *Options) flags() *flag.FlagSet {
	flags := flag.NewFlagSet("gateway", flag.ContinueOnError)
	flags.StringVar(&o.Kubeconfig, "kubeconfig", "", "kubeconfig `file`. "+
		"If empty: $KUBECONFIG, else ~/.kube/config, else, in a pod, its ServiceAccount")
	flags.StringVar(&o.Master, "master", "", "`URL` of the API server; overrides the kubeconfig")
	flags.Float64Var(&o.KubeAPIQPS, "kube-api-qps", -1, "most `requests` per second to the API server. "+
		"0 or less: no limit but the API server's priority and fairness")
	flags.StringVar(&o.Images.AgentImage, "agent-image", "gateway:dev", "`image` with /gateway-agent, /gateway-keys, /gateway-login and /gateway-waf, for the proxy pods")
	flags.StringVar(&o.Images.HAProxyImage, "haproxy-image", "haproxy:3.4", "`image` with HAProxy 3.4, for the proxy pods")
	o.Images.Policy.AddFlags(flags)
	flags.StringVar(&o.Images.KeyServer, "key-server", "", "`host:port` where proxy pods get Secrets and ConfigMaps from "+
		"gateway-key-server. If empty: kubelet mounts them")
	flags.StringVar(&o.KeyServerCA, "key-server-ca", "/etc/gateway/key-server/ca.crt", "`file` with the certificates that "+
		"the certificate of -key-server is verified with. The operator waits for it, and passes it to proxy pods")
	flags.StringVar(&o.Namespace, "namespace", "", "the only `namespace` to work in. If empty: all")
	flags.StringVar(&o.IngressNamespace, "ingress-namespace", "", "serve the Ingresses of IngressClasses with the controller "+
		"app.example.com/ingress, by Gateways in this `namespace`. It needs the permissions in artifacts/ingress. If empty: no Ingress")
	flags.IntVar(&o.Workers, "workers", 4, "`number` of Gateways to sync at the same time")
	flags.DurationVar(&o.Resync, "resync", 10*time.Minute, "how often to sync every Gateway without a change. 0: never")
	flags.BoolVar(&o.LeaderElect, "leader-elect", true, "work only while holding a lease, so that several replicas can run")
	flags.StringVar(&o.LeaderElectName, "leader-elect-name", "gateway-operator", "`name` of the lease")
	flags.StringVar(&o.LeaderElectNamespace, "leader-elect-namespace", "", "`namespace` of the lease. "+
		"If empty: $POD_NAMESPACE, else the pod's own, else default")
	flags.StringVar(&o.HealthAddress, "health-address", ":8080", "`address` for /healthz, /readyz and /metrics")
	flags.BoolVar(&o.Profiling, "profiling", false, "serve /debug/pprof on -health-address, too")
	flags.BoolVar(&o.Version, "version", false, "print the version and exit")
	return flags
}

// Parse reads and checks a command line; logs are the flags for logs that may be in it, too. The error is flag.ErrHelp
// if help was asked for.
func Parse(arguments []string, logs *flag.FlagSet) (Options, error) {
	var o Options
	flags := o.flags()
	logs.VisitAll(func(f *flag.Flag) { flags.Var(f.Value, f.Name, f.Usage) })
	flags.SetOutput(new(strings.Builder)) // what it would print is in the error
	if err := flags.Parse(arguments); err != nil {
		return o, err
	}
	_ = logs.Parse(nil) // glog asks whether that was done
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.Workers < 1:
		return o, fmt.Errorf(`invalid value "%d" for flag -workers: it has to be at least 1`, o.Workers)
	case o.Resync < 0:
		return o, fmt.Errorf(`invalid value "%v" for flag -resync: it must not be negative`, o.Resync)
	case o.Namespace != "" && o.IngressNamespace != "":
		return o, errors.New("the flags -namespace and -ingress-namespace exclude each other: Ingresses are served in all namespaces")
	case o.Namespace != "" && len(o.Images.Policy.ClusterWatch) > 0:
		return o, errors.New("the flags -namespace and -cluster-watch-namespaces exclude each other: the Gateway API is served in all namespaces")
	}
	if host, _, err := net.SplitHostPort(o.Images.KeyServer); o.Images.KeyServer != "" && (err != nil || host == "") {
		return o, fmt.Errorf("invalid value %q for flag -key-server: it has to be host:port", o.Images.KeyServer)
	}
	return o, o.checkNames()
}

// checkNames refuses names that no object has. With such a name, the operator would find nothing to do, or never get
// its lease.
func (o *Options) checkNames() error {
	for _, namespace := range []struct{ name, flag string }{
		{o.Namespace, "namespace"}, {o.IngressNamespace, "ingress-namespace"}, {o.LeaderElectNamespace, "leader-elect-namespace"},
	} {
		if namespace.name != "" && len(validation.IsDNS1123Label(namespace.name)) > 0 {
			return fmt.Errorf("invalid value %q for flag -%s: it has to be the name of one namespace", namespace.name, namespace.flag)
		}
	}
	if o.LeaderElect && len(validation.IsDNS1123Subdomain(o.LeaderElectName)) > 0 {
		return fmt.Errorf("invalid value %q for flag -leader-elect-name: it has to be the name of a Lease, like gateway-operator", o.LeaderElectName)
	}
	return nil
}

// LeaseNamespace returns where the lease is, "" without leader election.
func (o *Options) LeaseNamespace() string {
	switch {
	case !o.LeaderElect:
		return ""
	case o.LeaderElectNamespace != "":
		return o.LeaderElectNamespace
	case os.Getenv("POD_NAMESPACE") != "":
		return os.Getenv("POD_NAMESPACE")
	}
	if own, err := os.ReadFile(serviceAccountNamespace); err == nil {
		return strings.TrimSpace(string(own))
	}
	return metav1.NamespaceDefault // not in a pod
}

// Usage returns the help.
func Usage(logs *flag.FlagSet) string {
	var text strings.Builder
	describe := func(flags *flag.FlagSet) {
		copied := flag.NewFlagSet("", flag.ContinueOnError)
		flags.VisitAll(func(f *flag.Flag) { copied.Var(f.Value, f.Name, f.Usage) })
		copied.SetOutput(&text)
		copied.PrintDefaults()
	}
	text.WriteString(`gateway is the operator of Gateways (app.example.com/v1). For each Gateway it runs proxy pods behind a Service, and
writes the status.

From a shell:  gateway -kubeconfig=$HOME/.kube/config -alsologtostderr
In a pod:      gateway -logtostderr
It needs the CRDs ("make install") and the permissions in artifacts/rbac. It shuts down in order at the first SIGTERM
or SIGINT, and at once at the second.

`)
	describe(new(Options).flags())
	text.WriteString("\nLogs (glog), to files in the temporary directory by default:\n")
	describe(logs)
	return text.String()
}
