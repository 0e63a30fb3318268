package dataplanetest_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/render/rendertest"
)

// TestThreadsFollowTheCPULimit of HAProxy's container, and are as many as there are CPUs otherwise.
func TestThreadsFollowTheCPULimit(t *testing.T) {
	for limit, threads := range map[string]int{"": runtime.NumCPU(), "1": 1, "1024": runtime.NumCPU()} {
		t.Run(limit, func(t *testing.T) {
			if limit != "" {
				t.Setenv(ir.CPULimit, limit)
			}
			g := startGateway(t, rendertest.Parse(t, shopWorld))
			if info := g.Worker("show info"); !strings.Contains(info, fmt.Sprintf("\nNbthread: %d\n", threads)) {
				t.Errorf("want %d threads:\n%s", threads, info)
			}
		})
	}
}
