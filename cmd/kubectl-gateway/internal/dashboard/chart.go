package dashboard

import (
	"fmt"
	"strings"
	"time"
)

// The size of a chart, and of the bar of answers, in units of their view boxes.
const chartWidth, chartHeight, barWidth = 600.0, 80.0, 600.0

// chart is the request rate of the last minutes, as points of an SVG.
type chart struct {
	// Line are the points of the rate, and Area the points around the area below it; "" if there are fewer than two.
	Line, Area string
	// Highest is the highest rate.
	Highest string
}

// newChart draws points that end now. The top of the chart is the highest rate, or one request per second.
func newChart(points []point, now time.Time) chart {
	if len(points) < 2 {
		return chart{}
	}
	highest := 0.0
	for _, p := range points {
		highest = max(highest, p.requests)
	}
	x := func(p point) float64 { return chartWidth * (1 - now.Sub(p.at).Seconds()/shownHistory.Seconds()) }
	var line strings.Builder
	for _, p := range points {
		_, _ = fmt.Fprintf(&line, "%.1f,%.1f ", x(p), 2+(chartHeight-2)*(1-p.requests/max(highest, 1)))
	}
	area := fmt.Sprintf("%.1f,%.0f %s%.1f,%.0f", x(points[0]), chartHeight, line.String(), x(points[len(points)-1]), chartHeight)
	return chart{strings.TrimSpace(line.String()), area, perSecondText(highest)}
}

// share is how many of the answers have a class of status, as a part of a bar.
type share struct {
	Class, Percent string
	X, Width       string
}

// shares returns the shares of all classes with answers.
func shares(answers map[string]float64) []share {
	sum := 0.0
	for _, value := range answers {
		sum += value
	}
	if sum == 0 {
		return nil
	}
	var all []share
	x := 0.0
	for _, class := range []string{"1xx", "2xx", "3xx", "4xx", "5xx", "other"} {
		if part := answers[class] / sum; part > 0 {
			all = append(all, share{class, percent(part), fmt.Sprintf("%.1f", x), fmt.Sprintf("%.1f", barWidth*part)})
			x += barWidth * part
		}
	}
	return all
}
