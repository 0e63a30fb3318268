//go:build slow

package faults

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"gateway/internal/must"
	"gateway/test/internal/testenv"
)

// TestCompaction: what the watches of the operator and the agent want to go on from is really gone: while they are cut
// off, everything changes, etcd forgets, and the API server is started anew. So this test does not run in parallel with
// others.
func TestCompaction(t *testing.T) {
	s := startStack(t, "compaction")
	stopTraffic := s.pod.traffic(t)
	s.proxy.Refuse()
	generation := s.changeEverything(t)
	start := server.Kill(t, testenv.APIServer)
	compact(t)
	start()
	server.Ready(t)
	back := time.Now()
	s.proxy.Accept()
	s.expectChanged(t, promised, generation)
	t.Logf("in force %v after the end", time.Since(back).Round(time.Millisecond))
	stopTraffic()
	gone := 0
	for _, request := range s.proxy.Requests(back) {
		if request.TooOld {
			gone++
		}
	}
	t.Logf("%d watches were told that it is gone", gone)
	if gone == 0 {
		t.Error("no watch was told that what it wanted is gone: this proves nothing")
	}
}

// compact makes etcd forget all but the newest revision.
func compact(t *testing.T) {
	t.Helper()
	var header struct{ Header struct{ Revision string } }
	must.Do(t, json.Unmarshal(askEtcd(t, "/v3/kv/range", `{"key": "AA=="}`), &header))
	askEtcd(t, "/v3/kv/compaction", fmt.Sprintf(`{"revision": %q, "physical": true}`, header.Header.Revision))
}

func askEtcd(t *testing.T, path, body string) []byte {
	t.Helper()
	response, err := http.Post(server.EtcdURL()+path, "application/json", bytes.NewReader([]byte(body)))
	must.Do(t, err)
	defer response.Body.Close() //nolint:errcheck // it was read
	answer := must.Get(io.ReadAll(response.Body))(t)
	if response.StatusCode != http.StatusOK {
		t.Fatalf("etcd answers %s %s", response.Status, answer)
	}
	return answer
}
