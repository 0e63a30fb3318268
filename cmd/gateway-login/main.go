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
	"time"

	"gateway/cmd/gateway-login/internal/server"
	"gateway/internal/logging"
	"gateway/internal/program"
	"gateway/internal/unixsocket"
)

func main() {
	os.Exit(new(login).program().Main())
}

// login is the program.
type login struct {
	server.Server
	socket string
}

func (l *login) program() program.Program {
	return program.Program{
		Name: "gateway-login",
		Usage: "gateway-login sends users of a proxy pod to their OpenID providers, and renews and ends their sessions.\n" +
			"The operator starts it in every proxy pod of a Gateway with the filter OIDC.",
		Flags: l.flags, Check: l.check, Run: l.run,
	}
}

// run answers questions until ctx ends.
func (l *login) run(ctx context.Context) error {
	logging.Infof("Answering at %s", l.socket)
	listener, err := unixsocket.Listen(l.socket)
	if err != nil {
		return err
	}
	server := http.Server{Handler: &l.Server, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("failed to answer questions about sessions: %w", err)
	}
	return nil
}

func (l *login) flags(flags *flag.FlagSet) {
	flags.StringVar(&l.Secrets, "secrets-dir", "", "`directory` where kubelet mounts SECRET/client-secret, SECRET/issuer and SECRET/session-keys")
	flags.StringVar(&l.Authorities, "authorities-dir", "", "`directory` where kubelet mounts CONFIGMAP/ca.crt, by which providers are verified")
	flags.StringVar(&l.socket, "socket", "", "`file` of the socket where HAProxy asks about sessions")
}

func (l *login) check() error {
	switch {
	case l.Secrets == "":
		return errors.New("-secrets-dir is missing: where the Secrets are")
	case l.Authorities == "":
		return errors.New("-authorities-dir is missing: where the CA certificates are")
	case l.socket == "":
		return errors.New("-socket is missing: where HAProxy asks about sessions")
	}
	return nil
}
