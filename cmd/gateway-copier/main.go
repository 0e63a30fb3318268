// Command gateway-copier copies the certificates that Gateways of the Gateway API may use in other namespaces. It is
// optional, and the only program here that may read Secrets.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"k8s.io/client-go/kubernetes"
	routesclient "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"

	"gateway/internal/copier"
	"gateway/internal/kubeconfig"
	"gateway/internal/logging"
	"gateway/internal/reconnect"
	"gateway/internal/version"
	"gateway/signals"
)

const usage = "gateway-copier copies certificates to the namespaces of the Gateways that use them. It copies those that a\n" +
	"ReferenceGrant allows a Gateway or ListenerSet of another namespace to use.\n\n"

func main() {
	os.Exit(mainCode())
}

// mainCode is main with the exit code returned, so that deferred calls run.
func mainCode() int {
	flags := flag.CommandLine
	file := flags.String("kubeconfig", "", "kubeconfig `file`. "+
		"If empty: $KUBECONFIG, else ~/.kube/config, else, in a pod, its ServiceAccount")
	master := flags.String("master", "", "`URL` of the API server; overrides the kubeconfig")
	wantVersion := flags.Bool("version", false, "print the version and exit")
	flags.Init(flags.Name(), flag.ContinueOnError)
	flags.SetOutput(os.Stdout)
	flags.Usage = func() {
		fmt.Print(usage)
		flags.PrintDefaults()
	}
	switch err := flags.Parse(os.Args[1:]); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil || flags.NArg() > 0:
		return 1
	case *wantVersion:
		fmt.Print(version.Line("gateway-copier"))
		return 0
	}
	defer logging.Flush()
	logging.Start()
	if err := run(signals.SetupSignalHandler(), *master, *file); err != nil {
		logging.Failed("gateway-copier", err)
		return 1
	}
	return 0
}

// run works until ctx ends. An error says why it cannot work.
func run(ctx context.Context, master, file string) error {
	config, err := kubeconfig.Load(master, file)
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
