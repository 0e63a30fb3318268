// Command gateway-key-server gives proxy pods the Secrets and ConfigMaps that their Gateways may have. It is optional,
// and the only program here that may read Secrets.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	routesclient "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"

	clientset "gateway/generated/app/clientset/versioned"
	"gateway/internal/health"
	"gateway/internal/keyserver"
	"gateway/internal/kubeconfig"
	"gateway/internal/logging"
	"gateway/internal/memory"
	"gateway/internal/program"
	"gateway/internal/reconnect"
	"gateway/internal/version"
)

func main() {
	os.Exit(new(options).program().Main())
}

// options are the flags of the command line.
type options struct {
	kubeconfig, master     string
	address, healthAddress string
	namespaces             string
	namespace, name        string
	isProfiled             bool
}

func (o *options) program() program.Program {
	return program.Program{
		Name: "gateway-key-server",
		Usage: "gateway-key-server gives proxy pods the Secrets and ConfigMaps that their Gateways may have: from the Gateway's\n" +
			"namespace, by a ReferenceGrant, and the ones that objects of their own namespace name.",
		Flags: o.flags, Check: o.check, Run: o.run,
	}
}

func (o *options) flags(flags *flag.FlagSet) {
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig `file`. "+
		"If empty: $KUBECONFIG, else ~/.kube/config, else, in a pod, its ServiceAccount")
	flags.StringVar(&o.master, "master", "", "`URL` of the API server; overrides the kubeconfig")
	flags.StringVar(&o.address, "address", ":8443", "`address` for proxy pods")
	flags.StringVar(&o.healthAddress, "health-address", ":8080", "`address` for /healthz, /readyz and /metrics")
	flags.StringVar(&o.namespaces, "namespaces", "", "the only `namespaces` to read Secrets and ConfigMaps in, such as "+
		"shop,web. If empty: all")
	flags.StringVar(&o.namespace, "namespace", "", "the server's own `namespace`, which has its "+
		"certificate. Default: $POD_NAMESPACE")
	flags.StringVar(&o.name, "name", "", "`name` or address that proxy pods know the server by. Default: "+
		"gateway-key-server.NAMESPACE.svc")
	flags.BoolVar(&o.isProfiled, "profiling", false, "serve /debug/pprof on -health-address, too")
}

func (o *options) check() error {
	o.namespace = cmp.Or(o.namespace, os.Getenv("POD_NAMESPACE"))
	for _, namespace := range append(o.list(), o.namespace) {
		if len(validation.IsDNS1123Label(namespace)) > 0 {
			return fmt.Errorf("%q is not the name of a namespace: see -namespace and -namespaces", namespace)
		}
	}
	if o.name == "" {
		o.name = "gateway-key-server." + o.namespace + ".svc"
	}
	return nil
}

// list returns the namespaces to read in.
func (o *options) list() []string {
	if o.namespaces == "" {
		return nil
	}
	return strings.Split(o.namespaces, ",")
}

// run works until ctx ends. It returns an error if it cannot work.
func (o *options) run(ctx context.Context) error {
	memory.LeaveRoom()
	config, err := kubeconfig.Load(o.master, o.kubeconfig)
	if err != nil {
		return err
	}
	config.UserAgent = "gateway-key-server"
	reconnect.Configure(config)
	server, err := o.server(config)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", o.address)
	if err != nil {
		return fmt.Errorf("failed to listen on -address: %w", err)
	}
	healthy, err := health.Start(health.Options{
		Address: o.healthAddress, Profiling: o.isProfiled,
		Checks: map[string]health.Check{
			"/healthz": func(*http.Request) error { return nil },
			"/readyz":  func(*http.Request) error { return server.Ready() },
		},
	})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	logging.Infof("Version %s, reading from the cluster at %s; health and metrics on %s", version.String(), config.Host, healthy.Address())
	return errors.Join(server.Run(ctx, listener), healthy.Stop())
}

// server returns a server for a cluster.
func (o *options) server(config *rest.Config) (*keyserver.Server, error) {
	// Secrets and ConfigMaps are many.
	packed := rest.CopyConfig(config)
	packed.ContentType, packed.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	packed.QPS = -1 // the API server bounds what it takes
	kube, err := kubernetes.NewForConfig(packed)
	if err != nil {
		return nil, fmt.Errorf("failed to make a client for Kubernetes: %w", err)
	}
	own, err := clientset.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("failed to make a client for Gateways: %w", err)
	}
	routes, err := routesclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("failed to make a client for the Gateway API: %w", err)
	}
	return keyserver.New(keyserver.Options{
		Kube: kube, Own: own, Routes: routes, Namespaces: o.list(), Namespace: o.namespace, Names: []string{o.name},
	})
}
