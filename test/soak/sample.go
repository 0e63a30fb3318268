package soak

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// How much more the last third of the samples may have on average than the first: a tenth, and what comes and goes
// anyway.
const marginPercent = 10

var slack = map[string]float64{
	"MiB": 8, "descriptors": 15, "goroutines": 15, "processes": 2, "backends": 2, "certificates": 2,
	"disk": 64, // etcd keeps edits of ten minutes, and its file does not shrink
}

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

// growth returns what has grown from the first third of the samples to the last by more than the margin, and how.
func growth(samples []sample) map[string]string {
	third, grown := len(samples)/3, map[string]string{}
	for _, what := range names(samples) {
		if third == 0 {
			grown[what] = fmt.Sprintf("%d samples are too few to tell", len(samples))
			continue
		}
		first, last := mean(samples[:third], what), mean(samples[len(samples)-third:], what)
		if limit := first*(1+marginPercent/100.0) + slack[unit(what)]; last > limit {
			grown[what] = fmt.Sprintf("%.1f in the first third, %.1f in the last, may be %.1f", first, last, limit)
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

// draw returns a picture, SVG, with a curve for each number, from zero up.
func draw(samples []sample) string {
	const width, height, left, right, top = 600, 60, 190, 80, 30
	all := names(samples)
	var out strings.Builder
	end := samples[len(samples)-1].at
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n",
		left+width+right, top+height*len(all)+10)
	fmt.Fprintf(&out, `<rect width="100%%" height="100%%" fill="white"/><text x="8" y="18">%s of changes and requests; the number is the highest</text>`+"\n", end.Round(time.Minute))
	for i, what := range all {
		most := slices.MaxFunc(samples, func(a, b sample) int { return cmp.Compare(a.counts[what], b.counts[what]) }).counts[what]
		bottom := float64(top + height*(i+1) - 8)
		fmt.Fprintf(&out, `<text x="8" y="%.0f">%s</text><text x="%d" y="%.0f">%.0f</text>`, bottom-height/3, what, left+width+8, bottom-height/3, most)
		fmt.Fprintf(&out, `<path stroke="silver" d="M%d %.0fh%d"/><polyline fill="none" stroke="steelblue" stroke-width="1.5" points="`, left, bottom, width)
		for _, s := range samples {
			fmt.Fprintf(&out, "%.1f,%.1f ", left+width*s.at.Seconds()/end.Seconds(), bottom-(height-16)*s.counts[what]/max(most, 1))
		}
		out.WriteString(`"/>` + "\n")
	}
	out.WriteString("</svg>\n")
	return out.String()
}
