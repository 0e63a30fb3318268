// Package program is what the examples have in common: the way to the cluster, how they stop, and how they fail.
package program

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"gateway/signals"
)

var kubeconfig = flag.String("kubeconfig", "", "`file` that says how to reach the cluster. "+
	"If empty: $KUBECONFIG, else ~/.kube/config, else, in a pod, its ServiceAccount")

// Main parses the flags, calls run with a context that the first SIGINT or SIGTERM cancels, and exits. If run fails, it
// says why in one line.
func Main(run func(ctx context.Context, config *rest.Config) error) {
	flag.Parse()
	if err := connectAndRun(run); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %s\n", filepath.Base(os.Args[0]), strings.ReplaceAll(err.Error(), "\n", "; "))
		os.Exit(1)
	}
}

func connectAndRun(run func(context.Context, *rest.Config) error) error {
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = *kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return fmt.Errorf("failed to find the cluster: %w", err)
	}
	// The API server limits its clients itself. client-go's own limit, if nothing is set, is 5 requests a second.
	config.QPS = -1
	return run(signals.SetupSignalHandler(), config)
}
