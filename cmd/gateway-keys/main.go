// Command gateway-keys runs in a proxy pod beside HAProxy. It passes certificates on, with their keys to HAProxy
// and without to the agent, if the two fit. It tells HAProxy whether users may log in, which hashes of API keys there
// are, and the keys of sessions. It connects to endpoints whose certificates HAProxy cannot verify.
// It needs no API server.
package main

import (
	"context"
	"errors"
	"flag"
	"net"
	"os"
	"path/filepath"
	"sync"

	"gateway/internal/backendtls"
	"gateway/internal/certificates"
	"gateway/internal/haproxy/runtime"
	"gateway/internal/keeper"
	"gateway/internal/logging"
	"gateway/internal/passwords"
	"gateway/internal/program"
	"gateway/internal/unixsocket"
)

func main() {
	k := keys{Keeper: keeper.Keeper{Users: passwords.NewChecker()}}
	os.Exit(k.program().Main())
}

// keys is the program.
type keys struct {
	keeper.Keeper
	// haproxy is where HAProxy is told of certificates. users and relay are where HAProxy connects to, to ask about users
	// and to reach endpoints; "": it does not.
	haproxy, users, relay string
}

func (k *keys) program() program.Program {
	return program.Program{Name: "gateway-keys", Usage: usage, Flags: k.flags, Check: k.check, Run: k.run}
}

const usage = "gateway-keys passes the certificates of a proxy pod on once HAProxy takes them, and keeps those before until then.\n" +
	"It checks the passwords of users, and connects to endpoints whose certificates HAProxy cannot verify. " +
	"The operator starts it in every proxy pod that needs it."

// run passes on what Secrets hold, and serves HAProxy, until ctx ends.
func (k *keys) run(ctx context.Context) error {
	logging.Infof("Passing on what is in %s", k.Secrets)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	var errs [3]error
	for i, service := range []struct {
		socket string
		serve  func(context.Context, net.Listener) error
	}{{k.users, k.Users.Serve}, {k.relay, new(backendtls.Relay).Serve}} {
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

func (k *keys) flags(flags *flag.FlagSet) {
	flags.StringVar(&k.Secrets, "secrets-dir", "", "`directory` where kubelet mounts SECRET/tls.crt and SECRET/tls.key, SECRET/auth, SECRET/api-keys, SECRET/session-keys and SECRET/issuer")
	flags.StringVar(&k.Pairs, "pairs-dir", "", "`directory` to pass them on to HAProxy in, as SECRET/tls.pem, if the key is that of the certificate, API keys in "+certificates.APIKeysMap+", and keys of sessions in "+certificates.SessionKeysMap)
	flags.StringVar(&k.Certificates, "certificates-dir", "",
		"`directory` for the inventory that the agent reads: what there is, without keys, and what is wrong with it")
	flags.StringVar(&k.relay, "relay-socket", "", "`file` of the socket where HAProxy has connections to endpoints made; empty: it makes all itself")
	flags.StringVar(&k.users, "users-socket", "", "`file` of the socket where HAProxy asks whether users of SECRET/auth may log in; empty: it does not")
	flags.StringVar(&k.haproxy, "haproxy-socket", "", "`file` of the socket where HAProxy is asked about certificates, and told of them")
}

func (k *keys) check() error {
	switch {
	case k.Secrets == "":
		return errors.New("-secrets-dir is missing: where the Secrets are")
	case k.Pairs == "":
		return errors.New("-pairs-dir is missing: where HAProxy looks for certificates and keys")
	case k.Certificates == "":
		return errors.New("-certificates-dir is missing: where the agent looks for certificates")
	case k.haproxy == "":
		return errors.New("-haproxy-socket is missing: where HAProxy is asked about certificates")
	}
	k.Pairs = filepath.Clean(k.Pairs) // the files have the names that they have in HAProxy's configuration
	k.HAProxy = runtime.NewWorker(k.haproxy)
	return nil
}
