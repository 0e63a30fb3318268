// Command control measures the operator on a real API server without nodes: a burst of Gateways, restarts, steady state, edits
// among many. Beside it, in the same run, is the same job written in the plain manner
// of sample controllers (./plain). It prints tables in Markdown.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"

	"gateway/test/internal/testenv"
)

func main() {
	sizes := flag.String("gateways", "1000", "`numbers` of Gateways to measure the operator with, separated by commas")
	plain := flag.Int("plain", 1000, "`number` of Gateways to measure the plain controller with; 0 leaves it out")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *sizes, *plain)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "control:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, sizes string, plain int) error {
	gateways, err := numbers(sizes)
	if err != nil {
		return err
	}
	root, err := testenv.Root()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "gateway-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	operator, plainly := filepath.Join(dir, "gateway"), filepath.Join(dir, "plain")
	for _, build := range [][]string{{"-C", root, "-o", operator, "."}, {"-C", filepath.Join(root, "test"), "-o", plainly, "./bench/control/plain"}} {
		command := exec.CommandContext(ctx, "go", append([]string{"build"}, build...)...) //nolint:gosec // no input of others
		if output, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("failed to build %v: %w\n%s", build, err, output)
		}
	}
	var results table
	defer func() { results.print(os.Stdout) }() // also what was measured before an error
	b := &bench{root: root, dir: dir}
	if plain > 0 {
		column, err := b.measure(ctx, "plain", plainly, plain)
		if err != nil {
			return err
		}
		results = append(results, column)
	}
	for _, n := range gateways {
		column, err := b.measure(ctx, "operator", operator, n)
		if err != nil {
			return err
		}
		results = append(results, column)
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
