package faults

import (
	"fmt"
	"testing"
	"time"

	"gateway/internal/testtier"
	"gateway/test/internal/testenv"
)

// TestRestarts: the API server, then etcd are killed and started again. All tests have the same server, so this one does not run in
// parallel with others.
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
		ready := time.Now()
		path = fmt.Sprintf("/after-%d", i)
		generation := s.edit(t, path)
		s.pod.expectAnswer(t, soon, path, "next")
		s.expectProgrammed(t, soon, generation)
		testtier.Bound(t, "from "+part+" being ready to the edit being in force", time.Since(ready), promised)
	}
	stopTraffic()
	operatorLeaks()
	agentLeaks()
}
