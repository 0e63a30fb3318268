// Command snapshot copies from a checkout of the Go vulnerability database (github.com/golang/vulndb, data/osv) what
// concerns some modules, so that vulnerabilities can be looked for where the database itself cannot be reached.
//
// Usage: go list -m all | snapshot FROM TO
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: go list -m all | snapshot FROM TO")
		os.Exit(2)
	}
	copied, err := run(os.Stdin, os.Args[1], os.Args[2])
	if err != nil {
		fmt.Fprintf(os.Stderr, "snapshot: %v\n", err)
		os.Exit(1)
	}
	fmt.Printf("%d reports\n", copied)
}

// run copies the reports and returns how many there are.
func run(list io.Reader, from, to string) (int, error) {
	// Every program is made with the standard library and the go command.
	modules := map[string]bool{"stdlib": true, "toolchain": true}
	for lines := bufio.NewScanner(list); lines.Scan(); {
		module, _, _ := strings.Cut(lines.Text(), " ")
		modules[module] = true
	}
	reports, err := filepath.Glob(filepath.Join(from, "GO-*.json"))
	if err != nil {
		return 0, err
	}
	if len(reports) == 0 {
		return 0, fmt.Errorf("failed to find reports in %s", from)
	}
	copied := 0
	for _, report := range reports {
		content, err := os.ReadFile(report)
		if err != nil {
			return 0, err
		}
		if wanted, err := concerns(content, modules); err != nil {
			return 0, fmt.Errorf("failed to read %s: %w", report, err)
		} else if !wanted {
			continue
		}
		copied++
		if content, err = facts(content); err != nil {
			return 0, fmt.Errorf("failed to read %s: %w", report, err)
		}
		if err := os.WriteFile(filepath.Join(to, filepath.Base(report)), content, 0o644); err != nil {
			return 0, err
		}
	}
	return copied, nil
}

// concerns says whether a report in the OSV format is about one of the modules.
func concerns(content []byte, modules map[string]bool) (bool, error) {
	var report struct {
		Affected []struct{ Package struct{ Name string } }
	}
	if err := json.Unmarshal(content, &report); err != nil {
		return false, err
	}
	return slices.ContainsFunc(report.Affected, func(affected struct{ Package struct{ Name string } }) bool {
		return modules[affected.Package.Name]
	}), nil
}

// facts returns a report without what is written in it for people: it is at pkg.go.dev/vuln/ID.
func facts(content []byte) ([]byte, error) {
	var report map[string]any
	if err := json.Unmarshal(content, &report); err != nil {
		return nil, err
	}
	for _, text := range []string{"summary", "details", "references", "credits"} {
		delete(report, text)
	}
	short, err := json.Marshal(report)
	return append(short, '\n'), err
}
