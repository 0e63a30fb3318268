//go:build slow

package faults

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestThousandEdits: one Gateway is edited 1,000 times, as fast as the API server takes it, but for a minute at most.
func TestThousandEdits(t *testing.T) {
	t.Parallel()
	s := startStack(t, "edits")
	operatorLeaks, agentLeaks := watchLeaks(t, s.operator.address), watchLeaks(t, s.pod.health)
	stopTraffic := s.pod.traffic(t)
	begun, generation, edits := time.Now(), int64(0), 0
	for ; edits < 1000 && time.Since(begun) < time.Minute; edits++ {
		generation = s.edit(t, fmt.Sprintf("/thousand-%d", edits))
	}
	ended := time.Now()
	s.pod.expectAnswer(t, promised, fmt.Sprintf("/thousand-%d", edits-1), "next")
	s.expectProgrammed(t, promised, generation)
	t.Logf("%d edits in %v, in force %v later", edits, ended.Sub(begun).Round(time.Millisecond), time.Since(ended).Round(time.Millisecond))
	writes, statuses := map[string]int{}, 0
	for _, request := range s.proxy.Requests(begun) {
		if request.Write {
			kind := request.Agent + " others"
			if strings.HasSuffix(request.Path, "/status") {
				kind = fmt.Sprint(request.Agent, " status ", request.Code)
				statuses++
			}
			writes[kind]++
		}
	}
	t.Logf("writes: %v", writes)
	// One for each generation from each of the two, at most, however often they were refused.
	if statuses > 2*edits+50 {
		t.Errorf("%d writes of the status for %d edits", statuses, edits)
	}
	stopTraffic()
	operatorLeaks()
	agentLeaks()
}
