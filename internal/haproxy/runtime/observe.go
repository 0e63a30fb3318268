package runtime

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"gateway/internal/haproxy/ir"
	"gateway/internal/proxyconfig"
)

const (
	// showRows makes "show stat" answer with a line for each frontend (1) and server (4).
	showRows = "show stat -1 5 -1\n"
	// maxRows bounds what is read of the answer: a line has some 250 bytes.
	maxRows = 64 << 20
	// metricsFrontend is the one that is not for clients.
	metricsFrontend = "metrics"
)

// Observe returns the worker's report about itself and its servers.
func (w *Worker) Observe(ctx context.Context) (*proxyconfig.HAProxy, error) {
	reply, err := w.exchange(ctx, "show info\n")
	if err != nil {
		return nil, fmt.Errorf("failed to ask HAProxy's worker what it does: %w", err)
	}
	process, err := parseInfo(reply)
	if err != nil {
		return nil, fmt.Errorf("failed to ask HAProxy's worker what it does: %w", err)
	}
	observed := &proxyconfig.HAProxy{
		Version: parseFields(reply)["Version"], PID: process.PID, Started: time.Unix(process.Started, 0).UTC(), StartedOn: process.LoadID,
		OldWorkers: []proxyconfig.OldWorker{}, Servers: []proxyconfig.Server{},
	}
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	err = converse(ctx, w.socket, showRows, func(answer io.Reader) error { return parseRows(io.LimitReader(answer, maxRows), observed) })
	if err != nil {
		return nil, fmt.Errorf("failed to ask HAProxy's worker for its servers: %w", err)
	}
	return observed, nil
}

// parseRows adds the frontends and servers of the answer to showRows, which is CSV. Its first line, "#
// pxname,svname,...", names the columns.
func parseRows(answer io.Reader, into *proxyconfig.HAProxy) error {
	rows := csv.NewReader(answer)
	names, err := rows.Read()
	if err != nil || len(names) == 0 || names[0] != "# pxname" {
		return errors.New("unexpected answer to show stat")
	}
	columns := map[string]int{"pxname": 0}
	for i, name := range names[1:] {
		columns[name] = i + 1
	}
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("unexpected answer to show stat: %w", err)
		}
		// A column that this version of HAProxy does not have is empty.
		cell := func(name string) string {
			if i, ok := columns[name]; ok {
				return row[i]
			}
			return ""
		}
		switch {
		case strings.HasSuffix(cell("pxname"), ir.HandoverSuffix):
			// These are counted by both frontends.
			into.Sessions -= number(cell("scur"))
			into.Requests -= number(cell("stot"))
		case cell("svname") != "FRONTEND":
			into.Servers = append(into.Servers, parseServer(cell))
		case cell("pxname") != metricsFrontend:
			into.Sessions += number(cell("scur"))
			requests := cell("req_tot")
			if cell("mode") == "tcp" {
				requests = cell("stot")
			}
			into.Requests += number(requests)
		}
	}
}

func parseServer(cell func(column string) string) proxyconfig.Server {
	return proxyconfig.Server{
		Backend: cell("pxname"), Address: cell("addr"), State: cell("status"), Backup: cell("bck") == "1",
		Check:    strings.TrimSpace(cell("check_status") + " " + cell("last_chk")),
		Sessions: number(cell("scur")), Total: number(cell("stot")), Errors: number(cell("econ")) + number(cell("eresp")),
	}
}

// ObserveOldWorkers returns the workers that wait for their connections to end after a newer one has taken over. Only
// one goroutine may call it at a time. A worker that hangs is asked once (see AwaitStopping), even if the caller gave
// up. Its connections are not known.
func (m *Master) ObserveOldWorkers(ctx context.Context, now time.Time) ([]proxyconfig.OldWorker, error) {
	reply, err := exchange(ctx, m.socket, "show proc\n")
	if err != nil {
		return nil, fmt.Errorf("failed to ask HAProxy's master for its workers: %w", err)
	}
	workers, hung := []proxyconfig.OldWorker{}, map[int]bool{}
	for _, line := range workerLines(reply, oldWorkers) {
		worker, ok := parseOldWorker(line, now)
		if !ok {
			return nil, fmt.Errorf("unexpected answer to show proc: %q", line)
		}
		if hung[worker.PID] = m.hung[worker.PID]; !hung[worker.PID] {
			info, err := exchange(context.WithoutCancel(ctx), m.socket, fmt.Sprintf("@!%d show info\n", worker.PID))
			hung[worker.PID] = errors.Is(err, context.DeadlineExceeded)
			// A worker that ended just now has no connections.
			if err == nil {
				worker.Sessions = number(parseFields(info)["CurrConns"])
			}
		}
		workers = append(workers, worker)
	}
	m.hung = hung
	return workers, nil
}

// parseOldWorker reads a line like
//
//	12991           worker          1               0d00h00m51s     3.4.7-1
func parseOldWorker(line string, now time.Time) (proxyconfig.OldWorker, bool) {
	words := strings.Fields(line)
	if len(words) < 5 {
		return proxyconfig.OldWorker{}, false
	}
	pid, err := strconv.Atoi(words[0])
	var days, hours, minutes, seconds int
	_, scanErr := fmt.Sscanf(words[len(words)-2], "%dd%dh%dm%ds", &days, &hours, &minutes, &seconds)
	age := time.Duration(((days*24+hours)*60+minutes)*60+seconds) * time.Second
	return proxyconfig.OldWorker{PID: pid, Started: now.Add(-age).UTC().Truncate(time.Second)}, err == nil && scanErr == nil
}

// number is 0 for anything but a number: HAProxy leaves out what does not apply.
func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}
