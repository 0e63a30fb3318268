package soak

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"
)

// How much more the last third of the samples may have on average than the first: a tenth, and what comes and goes
// anyway.
const marginPercent = 10

var slack = map[string]float64{"MiB": 8, "descriptors": 15, "goroutines": 15, "processes": 2}

// sample is what was there at one moment: a number by what it counts, "agent MiB".
type sample struct {
	at     time.Duration
	counts map[string]float64
}

// unit is the last word of what a number counts.
func unit(what string) string {
	for u := range slack {
		if len(what) >= len(u) && what[len(what)-len(u):] == u {
			return u
		}
	}
	return ""
}

// growth returns what has grown from the first third of the samples to the last by more than the margin.
func growth(samples []sample) []string {
	third := len(samples) / 3
	if third == 0 {
		return []string{fmt.Sprintf("%d samples are too few to tell", len(samples))}
	}
	var grown []string
	for _, what := range names(samples) {
		first, last := mean(samples[:third], what), mean(samples[len(samples)-third:], what)
		if limit := first*(1+marginPercent/100.0) + slack[unit(what)]; last > limit {
			grown = append(grown, fmt.Sprintf("%s: %.1f in the first third, %.1f in the last, may be %.1f", what, first, last, limit))
		}
	}
	return grown
}

func mean(samples []sample, what string) float64 {
	sum := 0.0
	for _, s := range samples {
		sum += s.counts[what]
	}
	return sum / float64(len(samples))
}

func names(samples []sample) []string {
	all := map[string]bool{}
	for _, s := range samples {
		for what := range s.counts {
			all[what] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// printTable writes the samples as a table, with the thirds' averages.
func printTable(out io.Writer, samples []sample) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	columns := names(samples)
	_, _ = fmt.Fprint(table, "minute\t")
	for _, what := range columns {
		_, _ = fmt.Fprint(table, what, "\t")
	}
	row := func(title string, value func(what string) float64) {
		_, _ = fmt.Fprint(table, "\n", title, "\t")
		for _, what := range columns {
			_, _ = fmt.Fprintf(table, "%.1f\t", value(what))
		}
	}
	for _, s := range samples {
		row(fmt.Sprintf("%.1f", s.at.Minutes()), func(what string) float64 { return s.counts[what] })
	}
	if third := len(samples) / 3; third > 0 {
		row("first third", func(what string) float64 { return mean(samples[:third], what) })
		row("last third", func(what string) float64 { return mean(samples[len(samples)-third:], what) })
	}
	_, _ = fmt.Fprintln(table)
	_ = table.Flush() // to a terminal
}
