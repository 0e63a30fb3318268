// Command dataplane measures what a proxied request costs: the CPU time of the proxy's processes, for Gateways of
// several kinds and for what a good administrator would write for HAProxy, nginx and Caddy. It prints a table in
// Markdown.
//
// All proxies run on one core, clients and backends on the other. The proxies take turns in short slices, so that a
// busy machine disturbs all alike: their ratios count, not the absolute figures.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"time"
)

// options are the command line's.
type options struct {
	rounds, requests, warmup, connections int
	every                                 time.Duration
	only                                  string
	waf, trace                            bool
	edits                                 []string
}

func main() {
	var o options
	flag.IntVar(&o.rounds, "rounds", 36, "how many turns each proxy gets")
	flag.IntVar(&o.requests, "requests", 1000, "how many requests are measured in a turn")
	flag.IntVar(&o.warmup, "warmup", 200, "how many requests come before them")
	flag.IntVar(&o.connections, "connections", 16, "how many connections the clients keep open to each proxy")
	flag.DurationVar(&o.every, "every", 0, "send a request each `duration`, not as many as are answered")
	flag.StringVar(&o.only, "only", "", "measure only subjects whose names match this `regular expression`")
	flag.BoolVar(&o.waf, "waf", false, "measure the filter WAF beside ModSecurity, and nothing else")
	flag.BoolVar(&o.trace, "trace", false, "measure what it costs to ask for requests under way once each turn, and fail above its bound")
	flag.Func("edit", "measure Gateways also after this `sed` script went over haproxy.cfg (may be given several times)", func(script string) error {
		o.edits = append(o.edits, script)
		return nil
	})
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "dataplane:", err)
		os.Exit(1)
	}
}

func run(o options) error {
	// The sockets' paths have to be short.
	dir, err := os.MkdirTemp("/tmp", "dataplane")
	if err != nil {
		return fmt.Errorf("failed to make a directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := pinSelf(); err != nil {
		return err
	}
	site, err := newSite(dir)
	if err != nil {
		return err
	}
	defer site.stop()
	subjects, err := startAll(site, o)
	if err != nil {
		return err
	}
	if err := measure(site, subjects, o); err != nil {
		return err
	}
	printCosts(subjects)
	if o.trace {
		return checkTrace(subjects)
	}
	return nil
}

// The cores that proxies, and clients and backends, run on.
const (
	proxyCore = "0"
	otherCore = "1"
)

// pinned returns a command that runs on the proxies' core.
func pinned(name string, args ...string) *exec.Cmd {
	if runtime.NumCPU() > 1 {
		name, args = "taskset", append([]string{"-c", proxyCore, name}, args...)
	}
	return exec.Command(name, args...)
}

// pinSelf keeps this process, with its clients and backends, away from the proxies' core.
func pinSelf() error {
	if runtime.NumCPU() == 1 {
		return nil
	}
	if out, err := exec.Command("taskset", "-a", "-p", "-c", otherCore, strconv.Itoa(os.Getpid())).CombinedOutput(); err != nil {
		return fmt.Errorf("failed to choose a core: %w: %s", err, out)
	}
	return nil
}

// startAll starts the proxies that are to be measured.
func startAll(site *site, o options) ([]*subject, error) {
	only, err := regexp.Compile(o.only)
	if err != nil {
		return nil, fmt.Errorf("failed to read -only: %w", err)
	}
	all := subjects(o.edits)
	if o.waf {
		if all, err = wafSubjects(); err != nil {
			return nil, err
		}
	}
	if o.trace {
		if all, err = traceSubjects(site); err != nil {
			return nil, err
		}
	}
	var started []*subject
	for _, s := range all {
		if !only.MatchString(s.name) {
			continue
		}
		if err := s.start(site, filepath.Join(site.dir, strconv.Itoa(len(started))), o); err != nil {
			return nil, fmt.Errorf("failed to start %q: %w", s.name, err)
		}
		started = append(started, s)
	}
	return started, nil
}
