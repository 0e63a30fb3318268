package proxyconfig

import (
	"cmp"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/internal/proxyconfig"
)

const unknown = "<unknown>"

// newTable returns a table without rows.
func newTable(columns ...string) *metav1.Table {
	table := &metav1.Table{}
	for _, column := range columns {
		table.ColumnDefinitions = append(table.ColumnDefinitions, metav1.TableColumnDefinition{Name: column, Type: "string"})
	}
	return table
}

// podTable has a row for each pod.
func podTable(answers []cli.Answer, now time.Time) *metav1.Table {
	table := newTable("Pod", "Generation", "Connections", "Requests", "Servers", "Old workers", "Up", "Reloaded", "Problem")
	for i := range answers {
		a := &answers[i]
		row := NewRow(a.Config, unknown, now)
		cells := []any{a.Pod, row.Generation, row.Connections, row.Requests, row.Servers, row.OldWorkers, row.Up, row.Reloaded, a.Error}
		if a.Config != nil {
			cells[8] = a.Problem
			if len(a.Reloads) > 0 {
				cells[7] = fmt.Sprintf("%s: %s", row.Reloaded, a.Reloads[0].Reason)
			}
			if len(a.Reloads) > 0 && a.Reloads[0].Failure != "" {
				cells[7] = fmt.Sprintf("%s (refused)", cells[7])
			}
		}
		table.Rows = append(table.Rows, metav1.TableRow{Cells: cells})
	}
	return table
}

// Row is what a pod runs, for people.
type Row struct {
	Generation, Connections, Requests, Servers, OldWorkers, Up, Reloaded string
}

// NewRow returns the row of a pod. What is not known of it is as given.
func NewRow(config *proxyconfig.Config, unknown string, now time.Time) Row {
	row := Row{unknown, unknown, unknown, unknown, unknown, unknown, unknown}
	if config == nil {
		return row
	}
	if live, wanted := config.Live.Generation(), config.Wanted.Generation(); live > 0 {
		row.Generation = fmt.Sprint(live)
		if live != wanted {
			row.Generation = fmt.Sprintf("%d of %d", live, wanted)
		}
	}
	if haproxy := config.HAProxy; haproxy != nil {
		usable := 0
		for _, server := range haproxy.Servers {
			if server.IsUsable() {
				usable++
			}
		}
		row.Connections, row.Requests, row.Servers = fmt.Sprint(haproxy.Sessions), fmt.Sprint(haproxy.Requests), fmt.Sprintf("%d/%d", usable, len(haproxy.Servers))
		row.OldWorkers, row.Up = fmt.Sprint(len(haproxy.OldWorkers)), duration.HumanDuration(now.Sub(haproxy.Started))
	}
	row.Reloaded = "never"
	if len(config.Reloads) > 0 {
		row.Reloaded = duration.HumanDuration(now.Sub(config.Reloads[0].Time)) + " ago"
	}
	return row
}

// serverTable has a row for each server of each pod.
func serverTable(answers []cli.Answer, _ time.Time) *metav1.Table {
	table := newTable("Pod", "Backend", "Address", "State", "Now", "Total", "Errors", "Check")
	for _, a := range answers {
		if a.Config == nil || a.HAProxy == nil {
			continue
		}
		for _, s := range a.HAProxy.Servers {
			state := s.State
			if s.Backup {
				state += " (backup)"
			}
			table.Rows = append(table.Rows, metav1.TableRow{Cells: []any{a.Pod, s.Backend, s.Address, state, s.Sessions, s.Total, s.Errors, cmp.Or(s.Check, "<none>")}})
		}
	}
	return table
}

// reloadTable has a row for each reload of each pod.
func reloadTable(answers []cli.Answer, now time.Time) *metav1.Table {
	table := newTable("Pod", "Age", "Generation", "Configuration", "Reason", "Failure")
	for _, a := range answers {
		if a.Config == nil {
			continue
		}
		for _, r := range a.Reloads {
			table.Rows = append(table.Rows, metav1.TableRow{Cells: []any{a.Pod, duration.HumanDuration(now.Sub(r.Time)), r.Version.Generation(), r.Configuration, r.Reason, r.Failure}})
		}
	}
	return table
}
