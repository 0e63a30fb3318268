package waf_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const benchWorld = `
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  routes:
    - name: shop
      rules:
        - filters: [{type: WAF, waf: {anomalyThreshold: 1000}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /plain}}]
          backendRefs: [{name: web, port: 80}]
backends: [{service: web, port: 80}]
`

// cpu returns the CPU time of a process, in nanoseconds.
func cpu(b *testing.B, pid int) int64 {
	b.Helper()
	var all int64
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		b.Fatal(err)
	}
	for _, task := range tasks {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/schedstat", pid, task.Name()))
		if err != nil {
			continue
		}
		first, _, _ := strings.Cut(string(text), " ")
		n, _ := strconv.ParseInt(first, 10, 64)
		all += n
	}
	return all
}

// The requests of the benchmarks, and the paths that get them. /plain/busy is as slow as gateway-waf.
const (
	short = " HTTP/1.1\r\n" + usual + "\r\n"
	long  = " HTTP/1.1\r\n" + usual + "Cookie: session=0123456789abcdef; theme=dark\r\nReferer: https://shop.example.com/\r\n" +
		"Accept-Language: en\r\nAccept-Encoding: gzip\r\n\r\n"
)

var benchRequests = []struct{ name, text string }{
	{"plain", "GET /plain" + short}, {"busy", "GET /plain/busy" + short}, {"short", "GET /app.js" + short}, {"long", "GET /search?q=red+shoes&page=2" + long},
}

// startBench returns a site, and the process of its HAProxy.
func startBench(b *testing.B) (*site, int) {
	b.Helper()
	s, worker := start(b, benchWorld), 0
	for line := range strings.SplitSeq(s.Master("show proc"), "\n") {
		if fields := strings.Fields(line); len(fields) > 1 && fields[1] == "worker" {
			worker, _ = strconv.Atoi(fields[0])
		}
	}
	go func() {
		for range s.got {
		}
	}()
	return s, worker
}

// BenchmarkPath is the CPU time that HAProxy and gateway-waf take for a request.
func BenchmarkPath(b *testing.B) {
	s, worker := startBench(b)
	for _, request := range benchRequests {
		b.Run(request.name, func(b *testing.B) {
			before, beforeWAF := cpu(b, worker), cpu(b, s.waf.PID())
			var group sync.WaitGroup
			for i := range 4 {
				group.Go(func() {
					c := s.connect()
					for j := i; j < b.N; j += 4 {
						if got, err := c.send(request.text); err != nil || got != 200 {
							b.Error(got, err)
							return
						}
					}
				})
			}
			group.Wait()
			b.ReportMetric(float64(cpu(b, worker)-before)/float64(b.N), "haproxy-ns/op")
			b.ReportMetric(float64(cpu(b, s.waf.PID())-beforeWAF)/float64(b.N), "waf-ns/op")
		})
	}
}

// BenchmarkLatency is how long answers take at 200 requests per second. A request does not wait for others to end.
func BenchmarkLatency(b *testing.B) {
	s, _ := startBench(b)
	connections := make(chan *client, 100)
	for range cap(connections) {
		connections <- s.connect()
	}
	for _, request := range benchRequests {
		b.Run(request.name, func(b *testing.B) {
			took := make([]time.Duration, b.N)
			var group sync.WaitGroup
			ticker := time.NewTicker(5 * time.Millisecond)
			defer ticker.Stop()
			for i := range took {
				<-ticker.C
				begin := time.Now()
				group.Go(func() {
					c := <-connections
					defer func() { connections <- c }()
					if got, err := c.send(request.text); err != nil || got != 200 {
						b.Error(got, err)
					}
					took[i] = time.Since(begin)
				})
			}
			group.Wait()
			slices.Sort(took)
			for _, percent := range []int{50, 99} {
				b.ReportMetric(float64(took[len(took)*percent/100].Microseconds()), fmt.Sprintf("p%d-us", percent))
			}
		})
	}
}
