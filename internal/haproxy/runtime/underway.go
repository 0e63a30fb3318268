package runtime

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gateway/internal/proxyconfig"
)

// The parts of a stream in the answer to "show sess all show-uri", and of its sides: scf is the client's, scb the
// backend's. A bit of the flags tells that a side has got all that there is to get.
var (
	streamStart  = regexp.MustCompile(`^0x[0-9a-f]+: \[([^\]]+)\] id=\d+ proto=\S+(?: source=(\S+))?`)
	streamPlaces = regexp.MustCompile(`^  (frontend|backend|server)=(\S+) `)
	streamURI    = regexp.MustCompile(`^  txn=.* rsp\.st=(\S+) .*uri="(\S+) (\S+) `)
	streamSides  = regexp.MustCompile(`^  (scf|scb)=\S+ flags=0x([0-9a-f]+) .*\bstate=(\S+)`)
)

const (
	// isComplete is SC_FL_EOI of HAProxy.
	isComplete = 0x2
	// streamTime is how HAProxy writes when a stream began, in its own zone.
	streamTime = "02/Jan/2006:15:04:05.000000"
)

// UnderWay returns the requests of clients that have lasted so long or longer, in the order of HAProxy.
func (w *Worker) UnderWay(ctx context.Context, older time.Duration) ([]proxyconfig.Request, error) {
	return underWay(ctx, w.socket, "", older)
}

// UnderWay returns the requests under way in old workers.
func (m *Master) UnderWay(ctx context.Context, older time.Duration) (all []proxyconfig.Request, err error) {
	reply, err := exchange(ctx, m.socket, "show proc\n")
	if err != nil {
		return nil, fmt.Errorf("failed to ask HAProxy's master for its workers: %w", err)
	}
	for _, line := range workerLines(reply, oldWorkers) {
		pid, _, _ := strings.Cut(line, " ")
		requests, err := underWay(ctx, m.socket, "@!"+pid+" ", older)
		if err != nil {
			continue // it has ended just now, or hangs
		}
		for i := range requests {
			requests[i].IsOld = true
		}
		all = append(all, requests...)
	}
	return all, nil
}

func underWay(ctx context.Context, socket, prefix string, older time.Duration) ([]proxyconfig.Request, error) {
	var requests []proxyconfig.Request
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	// HAProxy 3.4 refuses "older" behind "all". In its place, it shows as much of each stream.
	selected := "all"
	if seconds := int64(older / time.Second); seconds > 0 {
		selected = fmt.Sprintf("older %ds", seconds)
	}
	err := converse(ctx, socket, prefix+"show sess "+selected+" show-uri\n", func(answer io.Reader) (err error) {
		requests, err = parseStreams(answer)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("failed to ask HAProxy's worker for its requests: %w", err)
	}
	before := time.Now().Add(-older)
	return slices.DeleteFunc(requests, func(r proxyconfig.Request) bool { return r.Started.After(before) }), nil
}

// stream is the known state of a stream.
type stream struct {
	proxyconfig.Request
	frontend, response, side string
	isComplete               bool
}

// parseStreams reads an answer of HAProxy.
func parseStreams(answer io.Reader) ([]proxyconfig.Request, error) {
	var all []proxyconfig.Request
	var current *stream
	end := func() {
		if current != nil && current.isRequest() {
			current.WaitsFor = current.waitsFor()
			all = append(all, current.Request)
		}
	}
	limited := &io.LimitedReader{R: answer, N: maxStreams}
	lines := bufio.NewScanner(limited)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if start := streamStart.FindStringSubmatch(line); start != nil {
			end()
			current = &stream{}
			current.Started, _ = time.ParseInLocation(streamTime, start[1], time.Local)
			current.Client, _, _ = net.SplitHostPort(start[2])
		} else if current != nil {
			current.add(line)
		} else if line != "" {
			return nil, fmt.Errorf("unexpected answer to show sess: %q", line)
		}
	}
	end()
	if limited.N == 0 {
		return nil, errors.New("there are too many")
	}
	return all, lines.Err()
}

func (s *stream) add(line string) {
	if !strings.HasPrefix(line, "  ") || strings.HasPrefix(line, "   ") {
		return
	}
	if place := streamPlaces.FindStringSubmatch(line); place != nil {
		name := place[2]
		if strings.HasPrefix(name, "<") || name == "(null)" {
			return
		}
		switch place[1] {
		case "frontend":
			s.frontend = name
		case "backend":
			s.Backend = name
		default:
			s.Server = name
		}
	} else if uri := streamURI.FindStringSubmatch(line); uri != nil {
		s.response, s.Method = uri[1], uri[2]
		s.Host, s.Path = splitURI(uri[3])
	} else if side := streamSides.FindStringSubmatch(line); side != nil {
		flags, _ := strconv.ParseUint(side[2], 16, 64)
		if side[1] == "scf" {
			s.isComplete = flags&isComplete != 0
		} else {
			s.side = side[3]
		}
	}
}

// splitURI returns the host and the path of the target of a request, without the query, which may have secrets.
func splitURI(target string) (host, path string) {
	target, _, _ = strings.Cut(target, "?")
	if strings.HasPrefix(target, "/") {
		return "", target
	}
	if parsed, err := url.Parse(target); err == nil && parsed.Host != "" {
		return parsed.Hostname(), parsed.EscapedPath()
	}
	return "", target
}

// isRequest reports whether a client sent the stream's request to a listener. The frontends of these have their ports
// as names; others are HAProxy's own.
func (s *stream) isRequest() bool {
	port, err := strconv.ParseUint(s.frontend, 10, 16)
	s.Port = int32(port) //nolint:gosec // it has 16 bits
	return err == nil && s.Method != "" && s.Method != "<BADREQ>"
}

func (s *stream) waitsFor() proxyconfig.WaitsFor {
	switch hasResponse := !slices.Contains([]string{"MSG_RPBEFORE", "MSG_RPVER"}, s.response); {
	case hasResponse && s.response == "MSG_TUNNEL":
		return proxyconfig.ForTunnel
	case hasResponse:
		return proxyconfig.ForResponse
	case s.side == "QUE":
		return proxyconfig.ForQueue
	case s.Backend == "" && s.isComplete:
		return proxyconfig.ForQuestion
	case !s.isComplete:
		return proxyconfig.ForBody
	case s.side != "EST":
		return proxyconfig.ForConnection
	}
	return proxyconfig.ForEndpoint
}
