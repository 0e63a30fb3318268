package proxyconfig

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

const (
	unknown = "<unknown>"
	none    = "<none>"
)

// newTable returns a table without rows.
func newTable(columns ...string) *metav1.Table {
	table := &metav1.Table{}
	for _, column := range columns {
		table.ColumnDefinitions = append(table.ColumnDefinitions, metav1.TableColumnDefinition{Name: column, Type: "string"})
	}
	return table
}

// podTable has a row for each pod.
func podTable(answers []answer, now time.Time) *metav1.Table {
	table := newTable("Pod", "Generation", "Connections", "Requests", "Servers", "Old workers", "Up", "Reloaded", "Problem")
	for i := range answers {
		table.Rows = append(table.Rows, metav1.TableRow{Cells: podRow(&answers[i], now)})
	}
	return table
}

func podRow(a *answer, now time.Time) []any {
	cells := []any{a.Pod, unknown, unknown, unknown, unknown, unknown, unknown, unknown, a.Error}
	if a.Config == nil {
		return cells
	}
	if live, wanted := a.Live.Generation(), a.Wanted.Generation(); live > 0 {
		cells[1] = fmt.Sprint(live)
		if live != wanted {
			cells[1] = fmt.Sprintf("%d of %d", live, wanted)
		}
	}
	if haproxy := a.HAProxy; haproxy != nil {
		usable := 0
		for _, server := range haproxy.Servers {
			if server.IsUsable() {
				usable++
			}
		}
		cells[2], cells[3], cells[4] = haproxy.Sessions, haproxy.Requests, fmt.Sprintf("%d/%d", usable, len(haproxy.Servers))
		cells[5], cells[6] = len(haproxy.OldWorkers), age(haproxy.Started, now)
	}
	cells[7] = "never"
	if len(a.Reloads) > 0 {
		last := a.Reloads[0]
		cells[7] = fmt.Sprintf("%s ago: %s", age(last.Time, now), last.Reason)
		if last.Failure != "" {
			cells[7] = fmt.Sprintf("%s (refused)", cells[7])
		}
	}
	cells[8] = a.Problem
	return cells
}

// serverTable has a row for each server of each pod.
func serverTable(answers []answer, _ time.Time) *metav1.Table {
	table := newTable("Pod", "Backend", "Address", "State", "Now", "Total", "Errors", "Check")
	for _, a := range answers {
		if a.Config == nil || a.HAProxy == nil {
			continue
		}
		for _, s := range a.HAProxy.Servers {
			check := s.Check
			if check == "" {
				check = none
			}
			table.Rows = append(table.Rows, metav1.TableRow{Cells: []any{a.Pod, s.Backend, s.Address, s.State, s.Sessions, s.Total, s.Errors, check}})
		}
	}
	return table
}

// reloadTable has a row for each reload of each pod.
func reloadTable(answers []answer, now time.Time) *metav1.Table {
	table := newTable("Pod", "Age", "Generation", "Configuration", "Reason", "Failure")
	for _, a := range answers {
		if a.Config == nil {
			continue
		}
		for _, r := range a.Reloads {
			table.Rows = append(table.Rows, metav1.TableRow{Cells: []any{a.Pod, age(r.Time, now), r.Version.Generation(), r.Configuration, r.Reason, r.Failure}})
		}
	}
	return table
}

func age(since, now time.Time) string { return duration.HumanDuration(now.Sub(since)) }
