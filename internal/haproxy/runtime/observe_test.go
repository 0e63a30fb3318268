package runtime

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/must"
	"gateway/internal/proxyconfig"
)

func TestRowsThatAreNotUnderstood(t *testing.T) {
	for answer, want := range map[string]string{
		"":                                    "unexpected answer to show stat",
		"Unknown command\n":                   "unexpected answer to show stat",
		"# pxname,svname\nb,s1,more\n":        "wrong number of fields",
		"# pxname,svname,\nb,\"s1,\n":         "unexpected answer to show stat: ",
		"# pxname,svname,scur,\nb,s1,many,\n": "",
	} {
		var into proxyconfig.HAProxy
		err := parseRows(strings.NewReader(answer), &into)
		if want == "" && (err != nil || len(into.Servers) != 1) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q is read as %+v, %v", answer, into, err)
		}
	}
}

func TestOldWorkerLines(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	for line, want := range map[string]bool{
		"12991           worker          1               0d00h00m51s     3.4.7-1": true,
		"12991           worker          1               soon            3.4":     false,
		"x               worker          1               0d00h00m51s     3.4":     false,
		"12991": false,
	} {
		worker, ok := parseOldWorker(line, now)
		if ok != want || ok && worker != (proxyconfig.OldWorker{PID: 12991, Started: now.Add(-51 * time.Second).UTC()}) {
			t.Errorf("%q is read as %+v, %v", line, worker, ok)
		}
	}
}

// TestConnectionsCount: HAProxy says of a frontend in mode tcp that it had no requests, and how many connections.
func TestConnectionsCount(t *testing.T) {
	answer := "# pxname,svname,mode,scur,stot,req_tot,\n80,FRONTEND,http,1,2,5,\n5432,FRONTEND,tcp,3,7,0,\n"
	var into proxyconfig.HAProxy
	if err := parseRows(strings.NewReader(answer), &into); err != nil || into.Sessions != 4 || into.Requests != 12 {
		t.Errorf("it is read as %+v, %v", into, err)
	}
}

// TestFrontendsCount: what clients do is counted, and what the metrics port gets is not.
func TestFrontendsCount(t *testing.T) {
	p := startProxy(t)
	metrics := haproxytest.FreePort(t)
	p.WriteFiles(p.files("two", fmt.Sprintf("frontend metrics\n    bind 127.0.0.1:%d\n    default_backend b\n", metrics)))
	must.Do(t, p.master.Reload(t.Context()))
	p.expectStatus(t, http.StatusServiceUnavailable)
	p.expectStatus(t, http.StatusServiceUnavailable)
	p.url = fmt.Sprintf("http://127.0.0.1:%d", metrics)
	p.expectStatus(t, http.StatusServiceUnavailable)
	observed := must.Get(p.worker.Observe(t.Context()))(t)
	if observed.Requests != 2 || observed.StartedOn != "two" || observed.Version == "" || len(observed.Servers) != 0 {
		t.Errorf("observed was %+v", observed)
	}
}
