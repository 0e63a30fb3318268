// Command gateway-waf runs in a proxy pod of a Gateway with the filter WAF. HAProxy asks it whether requests look like
// attacks. It needs no API server and no Secret, reads no files but those with rules of ConfigMaps, reaches no network,
// and nobody but HAProxy reaches it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"strings"

	"gateway/cmd/gateway-waf/internal/server"
	"gateway/cmd/gateway-waf/internal/sets"
	"gateway/internal/logging"
	"gateway/internal/unixsocket"
	"gateway/internal/version"
	"gateway/signals"
)

// Garbage is collected once there is four times as much as the rules take, which are most of what is kept: a quarter of
// the time of a request would go into it. Nearer to memory, it is collected more often. The container has a third more.
const (
	garbage = 400
	memory  = 384 << 20
)

func main() {
	os.Exit(mainCode())
}

// mainCode is main with the exit code returned, so that deferred calls run.
func mainCode() int {
	var o options
	switch err := o.parse(flag.CommandLine, os.Args[1:]); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errVersion):
		fmt.Print(version.Line("gateway-waf"))
		return 0
	case err != nil:
		logging.Failed("gateway-waf", fmt.Errorf("%w: see gateway-waf -help", err))
		return 1
	}
	if o.asks {
		return ask(o.socket)
	}
	defer logging.Flush()
	logging.Start()
	debug.SetGCPercent(garbage)
	debug.SetMemoryLimit(memory)
	ctx := signals.SetupSignalHandler() // before the log says that the program runs
	rules, err := sets.New(o.rulesDir)
	if err != nil {
		logging.Failed("gateway-waf", err)
		return 1
	}
	go rules.Run(ctx)
	logging.Infof("Answering at %s", o.socket)
	listener, err := unixsocket.Listen(o.socket)
	if err == nil {
		err = server.New(rules.Judge).Serve(ctx, listener)
	}
	if err != nil {
		logging.Failed("gateway-waf", err)
		return 1
	}
	return 0
}

// ask returns 0 if another gateway-waf answers at the socket.
func ask(socket string) int {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return 1
	}
	_ = conn.Close()
	return 0
}

// errVersion says that the version was asked for.
var errVersion = errors.New("version")

// options are what the command line says.
type options struct {
	socket, rulesDir string
	asks             bool
}

// parse reads and checks the command line. The error is flag.ErrHelp if help was asked for, and was printed.
func (o *options) parse(flags *flag.FlagSet, arguments []string) error {
	flags.StringVar(&o.socket, "socket", "", "`file` of the socket where HAProxy asks about requests")
	flags.StringVar(&o.rulesDir, "rules-dir", "", "`directory` with CONFIGMAP/rules.conf of ConfigMaps, as kubelet mounts them; empty: there are none")
	flags.BoolVar(&o.asks, "ask", false, "exit with 0 if a gateway-waf answers at the socket, else with 1")
	wantVersion := flags.Bool("version", false, "print the version and exit")
	flags.Init(flags.Name(), flag.ContinueOnError)
	var usage strings.Builder
	flags.SetOutput(&usage)
	flags.Usage = func() {
		usage.WriteString("gateway-waf tells HAProxy which requests look like attacks, by the OWASP Core Rule Set.\n" +
			"The operator starts it in every proxy pod of a Gateway with the filter WAF.\n\n")
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
	case o.socket == "":
		return errors.New("-socket is missing: where HAProxy asks about requests")
	}
	return nil
}
