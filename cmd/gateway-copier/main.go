// Command gateway-copier copies the certificates that Gateways of the Gateway API may use in other namespaces. It is
// optional, and the only program here that may read Secrets.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

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
	var o options
	switch err := o.parse(flag.CommandLine, os.Args[1:]); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		logging.Failed("gateway-copier", fmt.Errorf("%w: see gateway-copier -help", err))
		return 1
	case o.version:
		fmt.Print(version.Line("gateway-copier"))
		return 0
	}
	defer logging.Flush()
	logging.Start()
	if err := run(signals.SetupSignalHandler(), o); err != nil {
		logging.Failed("gateway-copier", err)
		return 1
	}
	return 0
}

// options are what the command line says.
type options struct {
	kubeconfig, master string
	version            bool
}

// parse reads and checks the command line. The error is flag.ErrHelp if help was asked for, and was printed.
func (o *options) parse(flags *flag.FlagSet, arguments []string) error {
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig `file`. "+
		"If empty: $KUBECONFIG, else ~/.kube/config, else, in a pod, its ServiceAccount")
	flags.StringVar(&o.master, "master", "", "`URL` of the API server; overrides the kubeconfig")
	flags.BoolVar(&o.version, "version", false, "print the version and exit")
	flags.Init(flags.Name(), flag.ContinueOnError)
	var output strings.Builder
	flags.SetOutput(&output)
	flags.Usage = func() {
		output.WriteString(usage)
		flags.PrintDefaults()
	}
	err := flags.Parse(arguments)
	switch {
	case errors.Is(err, flag.ErrHelp):
		_, _ = fmt.Fprint(os.Stdout, output.String())
	case err == nil && flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	return err
}

// run works until ctx ends. An error says why it cannot work.
func run(ctx context.Context, o options) error {
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
