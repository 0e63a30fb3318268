// Command control measures the operator on a real API server without nodes: a burst of Gateways, restarts, steady
// state, edits among many. Beside it, in the same run, is the same job written in the plain manner of sample
// controllers (./plain). Then it measures what the agents' watches cost the API server. It prints tables in Markdown.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"gateway/internal/testbuild"
)

func main() {
	b := &bench{}
	sizes := flag.String("gateways", "200", "`numbers` of Gateways to measure the operator with, separated by commas")
	flag.IntVar(&b.plain, "plain", 200, "`number` of Gateways to measure the plain controller with; 0 leaves it out")
	agents := flag.String("agents", "10,100,300", "`numbers` of agents to measure the watches of")
	flag.DurationVar(&b.resync, "resync", 30*time.Second, "how often the controllers look at every Gateway")
	flag.Parse()
	log.SetLogger(logr.Discard()) // what controller-runtime's test environment says is no result
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	var errs [3]error
	b.sizes, errs[0] = numbers(*sizes)
	b.agents, errs[1] = numbers(*agents)
	if errors.Join(errs[:]...) == nil {
		errs[2] = b.run(ctx)
	}
	stop()
	if err := errors.Join(errs[:]...); err != nil {
		fmt.Fprintln(os.Stderr, "control:", err)
		os.Exit(1)
	}
}

// bench is what is to be measured.
type bench struct {
	// sizes and plain are numbers of Gateways, for the operator and the plain controller; agents are numbers of agents.
	sizes, agents []int
	plain         int
	// resync is how often the controllers look at every Gateway: much more often than by default, to see what it costs.
	resync time.Duration
	// root is the project's directory, dir one for what is built.
	root, dir string
}

func (b *bench) run(ctx context.Context) (err error) {
	if b.root, err = testbuild.Root(); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("", "gateway-bench-"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(b.dir) }()
	for name, module := range map[string]string{".": "", "./cmd/gateway-agent": "", "./bench/control/plain": "test"} {
		build := exec.CommandContext(ctx, "go", "build", "-C", filepath.Join(b.root, module), "-o", b.built(name), name) //nolint:gosec // no input of others
		if output, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("failed to build %s: %w\n%s", name, err, output)
		}
	}
	return errors.Join(b.controllers(ctx), b.watchLoad(ctx))
}

// built is the path of a program by its package.
func (b *bench) built(name string) string {
	if name == "." {
		name = "gateway"
	}
	return filepath.Join(b.dir, filepath.Base(name))
}

// controllers measures the plain controller and the operator, side by side.
func (b *bench) controllers(ctx context.Context) error {
	var results table
	defer func() { results.print(os.Stdout) }() // also what was measured before an error
	sizes := map[string][]int{"operator": b.sizes}
	if b.plain > 0 {
		sizes["plain"] = []int{b.plain}
	}
	for _, subject := range []struct{ name, program string }{{"plain", b.built("./bench/control/plain")}, {"operator", b.built(".")}} {
		for _, n := range sizes[subject.name] {
			column, err := b.measure(ctx, subject.name, subject.program, n)
			if len(column.rows) > 0 {
				results = append(results, column)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func numbers(list string) ([]int, error) {
	var all []int
	for text := range strings.SplitSeq(list, ",") {
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, nil
}
