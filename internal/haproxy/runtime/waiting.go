package runtime

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"
)

const (
	// maxStreams bounds what is read of the answer to "show sess": a stream has some 300 bytes.
	maxStreams = 256 << 20
	// ownCommands is the frontend of the command line itself.
	ownCommands = "GLOBAL"
)

// Waiting are the streams that have no server yet: requests, and connections of TCP and TLS listeners.
type Waiting struct {
	// Oldest is the age of the oldest one without a backend, rounded up; 0: there is none. It may know the names of
	// anything that was in use when it began.
	Oldest time.Duration
	// Backends are those that have streams without a server, by name: in a queue, or before their body has arrived.
	Backends map[string]bool
}

// Waiting returns the streams that wait, and have lasted for about as long as since, or longer. HAProxy shows no
// others: there may be very many.
func (w *Worker) Waiting(ctx context.Context, since time.Duration) (Waiting, error) {
	command := "show sess"
	if age := int64(since/time.Second) - 1; age > 0 { // it cuts off parts of seconds
		command += fmt.Sprintf(" older %ds", age)
	}
	waiting := Waiting{Backends: map[string]bool{}}
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	err := converse(ctx, w.socket, command+"\n", func(answer io.Reader) error {
		limited := &io.LimitedReader{R: answer, N: maxStreams}
		lines := bufio.NewScanner(limited)
		for lines.Scan() {
			waiting.add(lines.Text())
		}
		if limited.N == 0 {
			return errors.New("there are too many")
		}
		return lines.Err()
	})
	if err != nil {
		return Waiting{}, fmt.Errorf("failed to ask HAProxy's worker for its streams: %w", err)
	}
	return waiting, nil
}

// add reads a line like
//
//	0x7f3a3f679d00: proto=tcpv4 src=127.0.0.1:38594 fe=80 be=<NONE> srv=<none> ts=00 epoch=0 age=1m4s calls=1 ...
func (w *Waiting) add(line string) {
	fields := map[string]string{}
	for field := range strings.FieldsSeq(line) {
		if name, value, _ := strings.Cut(field, "="); fields[name] == "" {
			fields[name] = value
		}
	}
	switch {
	case fields["fe"] == "" || fields["fe"] == ownCommands || fields["srv"] != "<none>":
	case fields["be"] == "<NONE>":
		w.Oldest = max(w.Oldest, atMost(fields["age"]))
	default:
		w.Backends[fields["be"]] = true
	}
}

// atMost returns the greatest possible age of a stream. HAProxy prints two units and cuts off the rest: "4s", "1m4s",
// "2h3m", "1d2h". An unknown text counts as the greatest age.
func atMost(age string) time.Duration {
	for unit, duration := range map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour} {
		if parsed, err := time.ParseDuration(age); err == nil && strings.HasSuffix(age, unit) {
			return parsed + duration
		}
	}
	return math.MaxInt64
}
