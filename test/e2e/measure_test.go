package e2e

import (
	"fmt"
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

func printMeasurements() {
	if len(measurements) > 0 {
		fmt.Printf("Measured:\n%s\n", strings.Join(measurements, "\n"))
	}
}
