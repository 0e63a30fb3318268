package e2e

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// What docs/maintainers/performance.md is made from: printed when all tests have run.
var (
	measurementsLock sync.Mutex
	measurements     []string
)

func measure(what string, durations ...time.Duration) {
	slices.Sort(durations)
	text := durations[0].Round(time.Millisecond).String()
	if n := len(durations); n > 1 {
		text = fmt.Sprintf("median %s, longest of %d %s", durations[n/2].Round(time.Millisecond), n,
			durations[n-1].Round(time.Millisecond))
	}
	record(what, text)
}

func record(what, text string) {
	measurementsLock.Lock()
	defer measurementsLock.Unlock()
	measurements = append(measurements, fmt.Sprintf("| %s | %s |", what, text))
}

// printMeasurements prints them, on the page of `make prove`, too.
func printMeasurements() error {
	if len(measurements) == 0 {
		return nil
	}
	text := strings.Join(measurements, "\n") + "\n"
	fmt.Printf("Measured:\n%s", text)
	page := os.Getenv("PROVE_PAGE")
	if page == "" {
		return nil
	}
	file, err := os.OpenFile(page, os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}
