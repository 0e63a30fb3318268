package load

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// clock is the format of times.
const clock = "15:04:05.000"

// Result is what happened.
type Result struct {
	Elapsed time.Duration
	Kinds   map[Kind]*Stats
	// Ends are the ends of WebSockets and streams that the other side ended.
	Ends     []End
	failures []Failure
}

// Stats are of one kind of requests; each message of a WebSocket or stream is one.
type Stats struct {
	latencies []time.Duration
}

// Failure is a request that was not answered as it has to be.
type Failure struct {
	At   time.Time
	Kind Kind
	Err  error
}

func (f Failure) String() string {
	return fmt.Sprintf("%s %s: %v", f.At.Format(clock), f.Kind, f.Err)
}

// recorder collects a result.
type recorder struct {
	mutex  sync.Mutex
	result Result
}

func (r *recorder) request(kind Kind, latency time.Duration, err error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	stats := r.result.Kinds[kind]
	if stats == nil {
		stats = &Stats{}
		r.result.Kinds[kind] = stats
	}
	stats.latencies = append(stats.latencies, latency)
	r.fail(kind, err)
}

func (r *recorder) end(end End, err error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.result.Ends = append(r.result.Ends, end)
	r.fail(end.Kind, err)
}

func (r *recorder) fail(kind Kind, err error) {
	if err != nil {
		r.result.failures = append(r.result.failures, Failure{At: time.Now(), Kind: kind, Err: err})
	}
}

// Failures are all failures in the order of time.
func (r *Result) Failures() []Failure { return r.failures }

// Requests is how many requests and messages were sent.
func (r *Result) Requests() int {
	n := 0
	for _, stats := range r.Kinds {
		n += stats.Requests()
	}
	return n
}

// Rate is how many of them a second.
func (r *Result) Rate() float64 { return float64(r.Requests()) / r.Elapsed.Seconds() }

// All are the figures of all kinds together. Of slow requests, it is the time beyond what they have to take.
func (r *Result) All() *Stats {
	all := &Stats{}
	for _, stats := range r.Kinds {
		all.latencies = append(all.latencies, stats.latencies...)
	}
	return all
}

// Requests is how many requests were sent.
func (s *Stats) Requests() int { return len(s.latencies) }

// Quantile is the latency that the part q of the requests did not exceed; 1 is the longest.
func (s *Stats) Quantile(q float64) time.Duration {
	if len(s.latencies) == 0 {
		return 0
	}
	slices.Sort(s.latencies)
	return s.latencies[int(q*float64(len(s.latencies)-1))]
}

// String is a line for each kind.
func (r *Result) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%d requests in %s, %.0f a second, %d failed\n", r.Requests(), r.Elapsed.Round(time.Second), r.Rate(), len(r.failures))
	for _, kind := range slices.Sorted(maps.Keys(r.Kinds)) {
		stats := r.Kinds[kind]
		fmt.Fprintf(&text, "%7d %-40s p50 %s, p99 %s, longest %s\n", stats.Requests(), kind, stats.Quantile(0.5).Round(time.Millisecond),
			stats.Quantile(0.99).Round(time.Millisecond), stats.Quantile(1).Round(time.Millisecond))
	}
	for _, end := range r.Ends {
		fmt.Fprintf(&text, "%s %s ended after %s: %v\n", end.At.Format(clock), end.Kind, end.At.Sub(end.Opened).Round(time.Millisecond), end.Cause)
	}
	return text.String()
}
