package try

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gateway/cmd/kubectl-gateway/internal/cli"
)

const long = `Run a Gateway of a file on this machine, without Kubernetes: the agent of a proxy pod and a real HAProxy, on 127.0.0.1.

The files are watched. Save one, and the change is live, or refused with the reason while the last good state stays.
Services without endpoints in the files are answered by a built-in backend, and certificates that they lack are made.
Ports below 1024 are moved up by --port-offset. HAProxy 3.4 is from the PATH, or else its image by docker.

With --once, the requests of --request are sent and the answers compared with the --expect of the same position. The
exit code is 3 if an answer is another one, or a part is not served.`

const examples = `  kubectl gateway try -f shop.yaml
  kubectl gateway try -f shop.yaml --endpoint cart:80=127.0.0.1:3000
  kubectl gateway try -f shop.yaml --once --request http://shop.example.com/cart --expect 200:cart`

// startTimeout is how long HAProxy and the first configuration may take.
const startTimeout = time.Minute

type command struct {
	*cli.Options
	files            cli.Files
	name             string
	offset           int32
	endpoints        map[string]string
	once             bool
	requests, expect []string
	made             pairs
}

// NewCommand returns the command.
func NewCommand(options *cli.Options) *cobra.Command {
	c := &command{Options: options, made: pairs{}}
	cmd := &cobra.Command{
		Use: "try [NAME] -f FILE", Short: "Run a Gateway of a file on this machine, without Kubernetes", Long: long, Example: examples,
		Args: cli.MaxArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.name = strings.Join(args, "")
			return c.run(cmd.Context())
		},
	}
	cli.AddFileFlags(cmd, &c.files, "file or directory with the Gateway, - for standard input")
	cmd.Flags().Int32Var(&c.offset, "port-offset", 8000, "add this to ports below 1024")
	cmd.Flags().StringToStringVar(&c.endpoints, "endpoint", nil, "send the requests for a Service port to an address: SERVICE:PORT=ADDRESS:PORT")
	cmd.Flags().BoolVar(&c.once, "once", false, "send the requests of --request, compare the answers with --expect, and end")
	cmd.Flags().StringArrayVar(&c.requests, "request", nil, "a request for --once: [METHOD] URL")
	cmd.Flags().StringArrayVar(&c.expect, "expect", nil, "what the request of the same position is to be answered with: STATUS[:SERVICE]")
	return cmd
}

func (c *command) run(ctx context.Context) error {
	if len(c.files.Paths) == 0 {
		return cli.Usagef("name a file with a Gateway: -f FILE")
	}
	if !c.once && len(c.requests)+len(c.expect) > 0 {
		return cli.Usagef("--request and --expect are for --once")
	}
	checks, err := parseChecks(c.requests, c.expect)
	if err != nil {
		return err
	}
	endpoints, err := parseEndpoints(c.endpoints)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("/tmp", "gateway-try-") // the path of a socket has at most 97 characters
	if err != nil {
		return fmt.Errorf("failed to make a directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()

	load := func() (*objects, error) { return c.load(ctx, endpoints) }
	first, err := load()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	s, err := newSession(ctx, c.Options, dir, first)
	if err != nil {
		cancel()
		return err
	}
	defer s.stop()
	defer cancel()
	if err := s.start(ctx); err != nil {
		return err
	}
	if c.once {
		return s.check(ctx, checks)
	}
	s.welcome()
	if err := s.follow(ctx, c.files, load); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
