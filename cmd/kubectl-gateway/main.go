// Command kubectl-gateway is a plugin of kubectl for Gateways: it shows them, their status, and what happens to a
// request.
package main

import (
	"os"

	"github.com/go-logr/logr"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/cmd/kubectl-gateway/internal/command"
	"gateway/signals"
)

func main() {
	// Errors are returned and printed once; client-go would log them as well.
	klog.SetLogger(logr.Discard())
	rest.SetDefaultWarningHandler(rest.NewWarningWriter(os.Stderr, rest.WarningWriterOptions{Deduplicate: true}))
	options := cli.NewOptions(genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr})
	os.Exit(cli.Execute(signals.SetupSignalHandler(), command.New(options), options, os.Args[1:]))
}
