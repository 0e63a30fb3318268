package waf_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
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

// BenchmarkPath is what HAProxy and gateway-waf take for a request. The backend of /plain/busy is as slow as
// gateway-waf.
func BenchmarkPath(b *testing.B) {
	s := start(b, benchWorld)
	worker := 0
	for _, line := range strings.Split(s.Master("show proc"), "\n") {
		if fields := strings.Fields(line); len(fields) > 1 && fields[1] == "worker" {
			worker, _ = strconv.Atoi(fields[0])
		}
	}
	go func() {
		for range s.got {
		}
	}()
	for _, path := range []string{"/plain", "/plain/busy", "/app.js", "/search?q=red+shoes&page=2"} {
		more := ""
		if strings.Contains(path, "?") {
			more = "Cookie: session=0123456789abcdef; theme=dark\r\nReferer: https://shop.example.com/\r\nAccept-Language: en\r\nAccept-Encoding: gzip\r\n"
		}
		b.Run(strings.Trim(path, "/"), func(b *testing.B) {
			before, beforeWAF := cpu(b, worker), cpu(b, s.waf.PID())
			var group sync.WaitGroup
			for i := range 4 {
				group.Go(func() {
					c := s.connect()
					for j := i; j < b.N; j += 4 {
						if got, err := c.send("GET " + path + " HTTP/1.1\r\n" + usual + more + "\r\n"); err != nil || got != 200 {
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
