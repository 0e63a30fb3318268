// Package program is what the programs beside HAProxy, and gateway-key-server, have in common: how they read a command
// line, say what is wrong, and end.
package program

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"gateway/internal/logging"
	"gateway/internal/version"
	"gateway/signals"
)

// Program is a program.
type Program struct {
	// Name is the name of the file, and Usage the text of its help before the flags.
	Name, Usage string
	// Flags defines the flags, beside -version and those for logs.
	Flags func(flags *flag.FlagSet)
	// Check returns the problems of their values.
	Check func() error
	// Run works until ctx ends. It returns an error if it cannot work.
	Run func(ctx context.Context) error
}

// errVersion is returned if the version was asked for.
var errVersion = errors.New("version")

// Main runs the program by its command line, and returns the exit code.
func (p Program) Main() int {
	switch err := p.Parse(flag.CommandLine, os.Args[1:]); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errVersion):
		fmt.Print(version.Line(p.Name))
		return 0
	case err != nil:
		logging.Failed(p.Name, fmt.Errorf("%w: see %s -help", err, p.Name))
		return 1
	}
	defer logging.Flush()
	logging.Start()
	if err := p.Run(signals.SetupSignalHandler()); err != nil {
		logging.Failed(p.Name, err)
		return 1
	}
	return 0
}

// Parse reads and checks a command line. The error is flag.ErrHelp if help was asked for, and was printed.
func (p Program) Parse(flags *flag.FlagSet, arguments []string) error {
	p.Flags(flags)
	wantsVersion := flags.Bool("version", false, "print the version and exit")
	flags.Init(flags.Name(), flag.ContinueOnError)
	var usage strings.Builder
	flags.SetOutput(&usage)
	flags.Usage = func() {
		usage.WriteString(p.Usage + "\n\n")
		flags.PrintDefaults()
	}
	err := flags.Parse(arguments)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Print(usage.String())
		return err
	case err != nil:
		return err
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case *wantsVersion:
		return errVersion
	}
	return p.Check()
}
