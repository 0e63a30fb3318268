// Command gateway-login runs in a proxy pod of a Gateway whose users log in at OpenID providers. HAProxy asks it about
// requests without a session. It is the only program of the pod that knows secrets of clients, and that reaches
// providers. It needs no API server, and nobody but HAProxy reaches it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"gateway/cmd/gateway-login/internal/server"
	"gateway/internal/logging"
	"gateway/internal/unixsocket"
	"gateway/internal/version"
	"gateway/signals"
)

func main() {
	os.Exit(mainCode())
}

// mainCode is main with the exit code returned, so that deferred calls run.
func mainCode() int {
	var s server.Server
	var socket string
	switch err := parse(&s, &socket, flag.CommandLine, os.Args[1:]); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errVersion):
		fmt.Print(version.Line("gateway-login"))
		return 0
	case err != nil:
		logging.Failed("gateway-login", fmt.Errorf("%w: see gateway-login -help", err))
		return 1
	}
	defer logging.Flush()
	logging.Start()
	ctx := signals.SetupSignalHandler() // before the log says that the program runs
	logging.Infof("Answering at %s", socket)
	if err := serve(ctx, &s, socket); err != nil {
		logging.Failed("gateway-login", err)
		return 1
	}
	return 0
}

// serve answers questions until ctx ends.
func serve(ctx context.Context, handler http.Handler, socket string) error {
	listener, err := unixsocket.Listen(socket)
	if err != nil {
		return err
	}
	server := http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("failed to answer questions about sessions: %w", err)
	}
	return nil
}

// errVersion says that the version was asked for.
var errVersion = errors.New("version")

// parse reads and checks the command line. The error is flag.ErrHelp if help was asked for, and was printed.
func parse(s *server.Server, socket *string, flags *flag.FlagSet, arguments []string) error {
	flags.StringVar(&s.Secrets, "secrets-dir", "", "`directory` where kubelet mounts SECRET/client-secret and SECRET/session-keys")
	flags.StringVar(&s.Authorities, "authorities-dir", "", "`directory` where kubelet mounts CONFIGMAP/ca.crt, by which providers are verified")
	flags.StringVar(socket, "socket", "", "`file` of the socket where HAProxy asks about sessions")
	wantVersion := flags.Bool("version", false, "print the version and exit")
	flags.Init(flags.Name(), flag.ContinueOnError)
	var usage strings.Builder
	flags.SetOutput(&usage)
	flags.Usage = func() {
		usage.WriteString("gateway-login sends users of a proxy pod to their OpenID providers, and renews and ends their sessions.\n" +
			"The operator starts it in every proxy pod of a Gateway with the filter OIDC.\n\n")
		flags.PrintDefaults()
	}
	if err := flags.Parse(arguments); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			_, _ = fmt.Fprint(os.Stdout, usage.String())
		}
		return err
	}
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case *wantVersion:
		return errVersion
	case s.Secrets == "":
		return errors.New("-secrets-dir is missing: where the Secrets are")
	case s.Authorities == "":
		return errors.New("-authorities-dir is missing: where the CA certificates are")
	case *socket == "":
		return errors.New("-socket is missing: where HAProxy asks about sessions")
	}
	return nil
}
