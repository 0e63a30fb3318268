// Command gateway-keys runs in a proxy pod beside HAProxy. It passes certificates on, with their keys to HAProxy
// and without to the agent, if the two fit. It tells HAProxy whether users may log in, which hashes of API keys there
// are, and the keys of sessions. It connects to endpoints whose certificates HAProxy cannot verify.
// It needs no API server. It may ask a key server for Secrets and ConfigMaps.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"

	"gateway/internal/backendtls"
	"gateway/internal/certificates"
	"gateway/internal/haproxy/runtime"
	"gateway/internal/keeper"
	"gateway/internal/keystream"
	"gateway/internal/logging"
	"gateway/internal/memory"
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
	// haproxy is HAProxy's socket for certificates. users and relay are the addresses where HAProxy asks about users and
	// reaches endpoints; "": HAProxy does not ask.
	haproxy, users, relay string
	// server is where Secrets and ConfigMaps are, if kubelet does not mount them.
	server keystream.Client
}

func (k *keys) program() program.Program {
	return program.Program{Name: "gateway-keys", Usage: usage, Flags: k.flags, Check: k.check, Run: k.run}
}

const usage = "gateway-keys passes the certificates of a proxy pod on once HAProxy takes them, and keeps those before until then.\n" +
	"It checks the passwords of users, and connects to endpoints whose certificates HAProxy cannot verify. " +
	"The operator starts it in every proxy pod that needs it."

// run passes on what Secrets hold, and serves HAProxy, until ctx ends.
func (k *keys) run(ctx context.Context) error {
	from := k.Secrets
	if k.Server != nil {
		from = k.Server.Address
	}
	logging.Infof("Passing on what is in %s", from)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go memory.GiveBack(ctx)
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
	flags.StringVar(&k.Secrets, "secrets-dir", "", "`directory` where kubelet mounts SECRET/tls.crt and SECRET/tls.key, SECRET/auth, SECRET/api-keys, SECRET/session-keys and SECRET/issuer; "+
		"with -key-server, where to keep what came from there, but certificates")
	flags.StringVar(&k.server.Address, "key-server", "", "`host:port` of the gateway-key-server that has Secrets and ConfigMaps; empty: kubelet mounts them")
	flags.StringVar(&k.server.TokenFile, "key-server-token", "", "`file` with the token for -key-server")
	flags.StringVar(&k.server.AuthorityFile, "key-server-ca", "", "`file` with the certificates that the certificate of -key-server is verified with")
	flags.StringVar(&k.Logins, "logins-dir", "", "`directory` for gateway-login, with -key-server: SECRET/session-keys, SECRET/client-secret and SECRET/issuer")
	flags.StringVar(&k.Authorities, "authorities-dir", "", "`directory` for ConfigMaps, with -key-server: CONFIGMAP/ca.crt, CONFIGMAP/ca.crl, CONFIGMAP/jwks and CONFIGMAP/rules.conf")
	flags.StringVar(&k.Pairs, "pairs-dir", "", "`directory` to pass them on to HAProxy in, as SECRET/tls.pem, if the key is that of the certificate, API keys in "+certificates.APIKeysMap+", and keys of sessions in "+certificates.SessionKeysMap)
	flags.StringVar(&k.Certificates, "certificates-dir", "",
		"`directory` for the inventory that the agent reads: what there is, without keys, and what is wrong with it")
	flags.StringVar(&k.ConfigDir, "config-dir", "", "`directory` of HAProxy's configurations: a key whose Secret is gone goes once they do not name it; empty: it stays")
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
	if k.server.Address != "" {
		k.Server = &k.server
		for _, needed := range []struct{ flag, value string }{
			{"key-server-token", k.server.TokenFile}, {"key-server-ca", k.server.AuthorityFile}, {"logins-dir", k.Logins}, {"authorities-dir", k.Authorities},
		} {
			if needed.value == "" {
				return fmt.Errorf("-%s is missing: -key-server needs it", needed.flag)
			}
		}
	}
	k.Pairs = filepath.Clean(k.Pairs) // the files have the names that they have in HAProxy's configuration
	k.HAProxy = runtime.NewWorker(k.haproxy).Exclusively(k.Certificates)
	return nil
}
