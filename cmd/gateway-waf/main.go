// Command gateway-waf runs in a proxy pod of a Gateway with the filter WAF. HAProxy asks it whether requests look like
// attacks. It needs no API server and no Secret, reads no files but those with rules of ConfigMaps, reaches no network,
// and nobody but HAProxy reaches it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"runtime/debug"

	"gateway/cmd/gateway-waf/internal/engine"
	"gateway/cmd/gateway-waf/internal/server"
	"gateway/cmd/gateway-waf/internal/sets"
	"gateway/internal/logging"
	"gateway/internal/program"
	"gateway/internal/unixsocket"
)

// Garbage is collected once there is four times as much as the rules take, which are most of what is kept: a quarter of
// the time of a request would go into it. Nearer to memory, it is collected more often. The container has twice as
// much: regular expressions take up to 205 MiB beside it, of which texts made to fill them took 20.
const (
	garbage = 400
	memory  = 256 << 20
)

func main() {
	os.Exit(new(options).program().Main())
}

// options are the flags of the command line.
type options struct {
	socket, rulesDir string
	asks, onDemand   bool
}

func (o *options) program() program.Program {
	return program.Program{
		Name: "gateway-waf",
		Usage: "gateway-waf tells HAProxy which requests look like attacks, by the OWASP Core Rule Set.\n" +
			"The operator starts it in every proxy pod of a Gateway with the filter WAF, and wherever there is a key server.",
		Flags: o.flags, Check: o.check, Run: o.run,
	}
}

func (o *options) flags(flags *flag.FlagSet) {
	flags.StringVar(&o.socket, "socket", "", "`file` of the socket where HAProxy asks about requests")
	flags.StringVar(&o.rulesDir, "rules-dir", "", "`directory` with CONFIGMAP/rules.conf of ConfigMaps, as kubelet mounts them; empty: there are none")
	flags.BoolVar(&o.onDemand, "on-demand", false, "read the Core Rule Set once HAProxy asks about a request, and not before")
	flags.BoolVar(&o.asks, "ask", false, "exit with 0 if a gateway-waf answers at the socket, else with 1")
}

func (o *options) check() error {
	if o.socket == "" {
		return errors.New("-socket is missing: where HAProxy asks about requests")
	}
	return nil
}

// run answers questions until ctx ends.
func (o *options) run(ctx context.Context) error {
	if o.asks {
		return ask(o.socket)
	}
	debug.SetGCPercent(garbage)
	debug.SetMemoryLimit(memory)
	plain := engine.OnDemand()
	if !o.onDemand {
		var err error
		if plain, err = engine.New(); err != nil {
			return err
		}
	}
	rules, err := sets.New(o.rulesDir, plain)
	if err != nil {
		return err
	}
	go rules.Run(ctx)
	logging.Infof("Answering at %s", o.socket)
	listener, err := unixsocket.Listen(o.socket)
	if err != nil {
		return err
	}
	return server.New(rules.Judge).Serve(ctx, listener)
}

// ask returns an error unless another gateway-waf answers at the socket.
func ask(socket string) error {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return fmt.Errorf("no gateway-waf answers: %w", err)
	}
	return conn.Close()
}
