// Command gateway-copier copies the certificates that Gateways of the Gateway API may use in other namespaces. It is
// optional, and the only program here that may read Secrets.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"k8s.io/client-go/kubernetes"
	routesclient "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"

	"gateway/internal/copier"
	"gateway/internal/kubeconfig"
	"gateway/internal/program"
	"gateway/internal/reconnect"
)

func main() {
	os.Exit(new(options).program().Main())
}

// options are what the command line says.
type options struct{ kubeconfig, master string }

func (o *options) program() program.Program {
	return program.Program{
		Name: "gateway-copier",
		Usage: "gateway-copier copies certificates to the namespaces of the Gateways that use them. It copies those that a\n" +
			"ReferenceGrant allows a Gateway or ListenerSet of another namespace to use.",
		Flags: o.flags, Check: func() error { return nil }, Run: o.run,
	}
}

func (o *options) flags(flags *flag.FlagSet) {
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig `file`. "+
		"If empty: $KUBECONFIG, else ~/.kube/config, else, in a pod, its ServiceAccount")
	flags.StringVar(&o.master, "master", "", "`URL` of the API server; overrides the kubeconfig")
}

// run works until ctx ends. An error says why it cannot work.
func (o *options) run(ctx context.Context) error {
	config, err := kubeconfig.Load(o.master, o.kubeconfig)
	if err != nil {
		return err
	}
	config.UserAgent = "gateway-copier"
	reconnect.Configure(config)
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("failed to make a client for Kubernetes: %w", err)
	}
	routes, err := routesclient.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("failed to make a client for the Gateway API: %w", err)
	}
	c, err := copier.New(kube, routes)
	if err != nil {
		return err
	}
	c.Run(ctx)
	return nil
}
