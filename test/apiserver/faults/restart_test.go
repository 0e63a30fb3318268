package faults

import (
	"fmt"
	"testing"
	"time"

	"gateway/internal/testtier"
	"gateway/test/internal/testenv"
)

// within is when an edit has to be in force. The machine of make test has other things to do.
var within = map[bool]time.Duration{false: soon, true: promised}[testtier.All]

// TestRestarts: the API server, then etcd are killed and started again. All tests have the same server, so this one
// does not run in parallel with others.
func TestRestarts(t *testing.T) {
	s := startStack(t, "restarts")
	operatorLeaks, agentLeaks := watchLeaks(t, s.operator.address), watchLeaks(t, s.pod.health)
	stopTraffic := s.pod.traffic(t)
	path := "/edit-1"
	for i, part := range []string{testenv.APIServer, testenv.Etcd} {
		start := server.Kill(t, part)
		// The agent does not need them: HAProxy goes on by what it has.
		s.pod.expectAnswer(t, soon, path, "next")
		start()
		server.Ready(t)
		path = fmt.Sprintf("/after-%d", i)
		generation := s.edit(t, path)
		s.pod.expectAnswer(t, within, path, "next")
		s.expectProgrammed(t, within, generation)
	}
	stopTraffic()
	operatorLeaks()
	agentLeaks()
}
