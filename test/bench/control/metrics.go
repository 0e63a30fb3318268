package main

import (
	"strconv"
	"strings"
)

// metrics are values by name and labels, as Prometheus' text format has them.
type metrics map[string]float64

func parseMetrics(text string) metrics {
	m := metrics{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if end := strings.LastIndexByte(line, ' '); end > 0 && line[0] != '#' {
			m[line[:end]], _ = strconv.ParseFloat(line[end+1:], 64)
		}
	}
	return m
}

// sum adds the values of that name whose labels contain all the texts.
func (m metrics) sum(name string, labels ...string) float64 {
	total := 0.0
next:
	for key, value := range m {
		got, rest, _ := strings.Cut(key, "{")
		if got != name {
			continue
		}
		for _, label := range labels {
			if !strings.Contains(rest, label) {
				continue next
			}
		}
		total += value
	}
	return total
}

// minus are the values of m less those of an earlier time.
func (m metrics) minus(earlier metrics) metrics {
	difference := metrics{}
	for key, value := range m {
		if value != earlier[key] {
			difference[key] = value - earlier[key]
		}
	}
	return difference
}

// label returns the value of a label in a key of metrics.
func label(key, name string) string {
	_, after, _ := strings.Cut(key, name+`="`)
	value, _, _ := strings.Cut(after, `"`)
	return value
}

// calls are the requests in the API server's metrics by what they are, "APPLY deployments".
func (m metrics) calls() map[string]float64 {
	calls := map[string]float64{}
	for key, value := range m {
		if !strings.HasPrefix(key, "apiserver_request_total{") {
			continue
		}
		what := label(key, "verb") + " " + label(key, "resource")
		if subresource := label(key, "subresource"); subresource != "" {
			what += "/" + subresource
		}
		calls[what] += value
	}
	return calls
}
