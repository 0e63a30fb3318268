package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gateway/cmd/kubectl-gateway/internal/cli"
)

const long = `Serve a page about the Gateways of a namespace on 127.0.0.1: problems, requests, routes, and what each proxy runs. It runs
until it is interrupted. Whoever may connect to the port of this machine can read the page, and change nothing.

It reads as you: you need permission to list Gateways, routes and Pods, and to create pods/portforward. It asks the
cluster while the page is open, every 5 seconds.`

// headerTimeout bounds how long a client may take to ask.
const headerTimeout = 10 * time.Second

// NewCommand returns the command.
func NewCommand(options *cli.Options) *cobra.Command {
	all, port := false, uint16(0)
	cmd := &cobra.Command{
		Use: "dashboard", Short: "Serve a page about the Gateways on this machine", Long: long,
		Example: `  kubectl gateway dashboard -n shop
  kubectl gateway dashboard -A --port 8080`,
		Args: cli.MaxArgs(0), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), options, all, port) },
	}
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "the Gateways of all namespaces")
	cmd.Flags().Uint16Var(&port, "port", 0, "the port on 127.0.0.1; 0: a free one")
	return cmd
}

func run(ctx context.Context, options *cli.Options, all bool, port uint16) error {
	clients, namespace, err := options.Connect()
	if err != nil {
		return err
	}
	scope := "namespace " + namespace
	if all {
		namespace, scope = metav1.NamespaceAll, "all namespaces"
	}
	read := func(ctx context.Context) (*snapshot, error) { return observe(ctx, clients, namespace) }
	// Problems of the cluster or the credentials are reported here, rather than on a page.
	first, err := read(ctx)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
	if err != nil {
		return fmt.Errorf("failed to listen: %w", err)
	}
	board := newBoard(read, clients.Config.Host+", "+scope)
	board.add(first)
	server := &http.Server{Handler: guard(listener.Addr().String(), board.handler()), ReadHeaderTimeout: headerTimeout}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	options.Say("The dashboard is at http://%s/ until you press Ctrl-C", listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("failed to serve: %w", err)
	}
	return nil
}
