package try

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/internal/haproxy/filters"
	"gateway/internal/routing"
)

// Tried is a Gateway that runs, for tests.
type Tried struct {
	session *session
	dir     string
	cancel  context.CancelFunc
	// Table has the ports of the files, Problems what is not served, and HasWarnings reports whether there are warnings.
	Table       routing.Table
	Problems    []string
	HasWarnings bool
	// Ports are where it listens, by the ports of the files.
	Ports map[int32]int32
}

// TakePorts has sessions take their ports from a function.
func TakePorts(free func() int32) {
	freePort = func(context.Context) (int32, error) { return free(), nil }
}

// Start runs a Gateway of files, with free ports.
func Start(ctx context.Context, options *cli.Options, paths []string, name string) (tried *Tried, err error) {
	c := &command{Options: options, files: cli.Files{Paths: paths}, name: name, made: pairs{}}
	o, err := c.load(ctx, nil)
	if err != nil {
		return nil, err
	}
	tried = &Tried{Problems: o.problems, HasWarnings: o.hasWarnings}
	tried.Table, _ = routing.Compile(o.gateway, filters.Problem)
	o.gateway.Listeners = slices.Clone(o.gateway.Listeners)
	for i := range o.gateway.Listeners {
		port := &o.gateway.Listeners[i].Port
		if o.moved[*port] == 0 {
			if o.moved[*port], err = freePort(ctx); err != nil {
				return nil, err
			}
		}
		*port = o.moved[*port]
	}
	tried.Ports = o.moved
	if tried.dir, err = os.MkdirTemp("/tmp", "gateway-try-"); err != nil {
		return nil, err
	}
	ctx, tried.cancel = context.WithCancel(ctx)
	if tried.session, err = newSession(ctx, options, tried.dir, o); err == nil {
		tried.session.log.quiet = true
		err = tried.session.start(ctx)
	}
	if err != nil {
		tried.Stop()
		return nil, err
	}
	return tried, nil
}

// Stop ends it.
func (t *Tried) Stop() {
	if t.session != nil {
		t.session.stop()
	}
	t.cancel()
	_ = os.RemoveAll(t.dir)
}

// Send returns a status, or 200:SERVICE, or "none" for a connection without an answer.
func (t *Tried) Send(ctx context.Context, method, address string) (string, error) {
	checks, err := parseChecks([]string{method + " " + address}, nil)
	if err != nil {
		return "", err
	}
	status, service, err := t.session.send(ctx, &checks[0])
	switch {
	case err != nil && strings.Contains(err.Error(), "no answer"):
		return "none", nil
	case err != nil || status != http.StatusOK || service == "":
		return fmt.Sprint(status), err
	}
	return fmt.Sprintf("%d:%s", status, service), nil
}
