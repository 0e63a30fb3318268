// Command gateway-keys runs in a proxy pod beside HAProxy. It passes certificates on, with their keys to HAProxy
// and without to the agent, if the two fit. It tells HAProxy whether users may log in, which hashes of API keys there
// are, and the keys of sessions. It connects to endpoints whose certificates HAProxy cannot verify.
// It needs no API server.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"gateway/internal/backendtls"
	"gateway/internal/certificates"
	"gateway/internal/haproxy/runtime"
	"gateway/internal/keeper"
	"gateway/internal/logging"
	"gateway/internal/passwords"
	"gateway/internal/unixsocket"
	"gateway/internal/version"
	"gateway/signals"
)

func main() {
	os.Exit(mainCode())
}

// mainCode is main with the exit code returned, so that deferred calls run.
func mainCode() int {
	k := keeper.Keeper{Users: passwords.NewChecker()}
	var s sockets
	switch err := parse(&k, &s, flag.CommandLine, os.Args[1:]); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errVersion):
		fmt.Print(version.Line("gateway-keys"))
		return 0
	case err != nil:
		logging.Failed("gateway-keys", fmt.Errorf("%w: see gateway-keys -help", err))
		return 1
	}
	defer logging.Flush()
	logging.Start()
	ctx := signals.SetupSignalHandler() // before the log says that the program runs
	logging.Infof("Passing on what is in %s", k.Secrets)
	if err := run(ctx, &k, s); err != nil {
		logging.Failed("gateway-keys", err)
		return 1
	}
	return 0
}

// sockets are where HAProxy connects to: to ask about users, and to reach endpoints; "": it does not.
type sockets struct{ users, relay string }

// run passes on what Secrets hold, and serves HAProxy, until ctx ends.
func run(ctx context.Context, k *keeper.Keeper, s sockets) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	var errs [3]error
	for i, service := range []struct {
		socket string
		serve  func(context.Context, net.Listener) error
	}{{s.users, k.Users.Serve}, {s.relay, new(backendtls.Relay).Serve}} {
		if service.socket == "" {
			continue
		}
		listener, err := unixsocket.Listen(service.socket)
		if err != nil {
			return err
		}
		running.Go(func() {
			defer cancel()
			errs[i] = service.serve(ctx, listener)
		})
	}
	errs[2] = k.Run(ctx)
	cancel()
	running.Wait()
	return errors.Join(errs[:]...)
}

// errVersion says that the version was asked for.
var errVersion = errors.New("version")

// parse reads and checks the command line. The error is flag.ErrHelp if help was asked for, and was printed.
func parse(k *keeper.Keeper, s *sockets, flags *flag.FlagSet, arguments []string) error {
	flags.StringVar(&k.Secrets, "secrets-dir", "", "`directory` where kubelet mounts SECRET/tls.crt and SECRET/tls.key, SECRET/auth, SECRET/api-keys and SECRET/session-keys")
	flags.StringVar(&k.Pairs, "pairs-dir", "", "`directory` to pass them on to HAProxy in, as SECRET/tls.pem, if the key is that of the certificate, API keys in "+certificates.APIKeysMap+", and keys of sessions in "+certificates.SessionKeysMap)
	flags.StringVar(&k.Certificates, "certificates-dir", "",
		"`directory` to pass them on to the agent in, without keys; SECRET/problem tells what is wrong with what the Secret holds now")
	flags.StringVar(&s.relay, "relay-socket", "", "`file` of the socket where HAProxy has connections to endpoints made; empty: it makes all itself")
	flags.StringVar(&s.users, "users-socket", "", "`file` of the socket where HAProxy asks whether users of SECRET/auth may log in; empty: it does not")
	socket := flags.String("haproxy-socket", "", "`file` of the socket where HAProxy is asked about certificates, and told of them")
	wantVersion := flags.Bool("version", false, "print the version and exit")
	flags.Init(flags.Name(), flag.ContinueOnError)
	var usage strings.Builder
	flags.SetOutput(&usage)
	flags.Usage = func() {
		usage.WriteString("gateway-keys passes the certificates of a proxy pod on once HAProxy takes them, and keeps those before until then.\n" +
			"It checks the passwords of users, and connects to endpoints whose certificates HAProxy cannot verify. " +
			"The operator starts it in every proxy pod that needs it.\n\n")
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
	case k.Secrets == "":
		return errors.New("-secrets-dir is missing: where the Secrets are")
	case k.Pairs == "":
		return errors.New("-pairs-dir is missing: where HAProxy looks for certificates and keys")
	case k.Certificates == "":
		return errors.New("-certificates-dir is missing: where the agent looks for certificates")
	case *socket == "":
		return errors.New("-haproxy-socket is missing: where HAProxy is asked about certificates")
	}
	k.Pairs = filepath.Clean(k.Pairs) // the files have the names that they have in HAProxy's configuration
	k.HAProxy = runtime.NewWorker(*socket)
	return nil
}
