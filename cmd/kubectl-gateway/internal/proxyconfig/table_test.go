package proxyconfig

import (
	"bytes"
	"regexp"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"

	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/internal/model"
	"gateway/internal/must"
	"gateway/internal/proxyconfig"
)

func version(generation int64) *proxyconfig.Version {
	return &proxyconfig.Version{Origins: []model.Origin{{Generation: generation}}}
}

// TestTables shows pods in every state: one that could not be asked, one whose HAProxy does not answer, one that keeps
// an older generation, and one that is as it should be.
func TestTables(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	answers := []cli.Answer{
		{Pod: "silent", Error: "no answer within 15s"},
		{Pod: "starting", Config: &proxyconfig.Config{Problem: "HAProxy does not answer"}},
		{Pod: "behind", Config: &proxyconfig.Config{
			Live: version(2), Wanted: version(3), Problem: "refused",
			Reloads: []proxyconfig.Reload{
				{Time: ago(time.Minute), Version: version(3), Configuration: "load-3", Reason: "certificates changed", Failure: "no key"},
				{Time: ago(time.Hour), Version: version(2), Configuration: "load-2", Reason: "listener ports changed"},
			},
			HAProxy: &proxyconfig.HAProxy{Started: ago(time.Hour), OldWorkers: []proxyconfig.OldWorker{{PID: 7}, {PID: 8}}},
		}},
		{Pod: "good", Config: &proxyconfig.Config{
			Live: version(3), Wanted: version(3),
			HAProxy: &proxyconfig.HAProxy{
				Started: ago(48 * time.Hour), Sessions: 12, Requests: 3456,
				Servers: []proxyconfig.Server{
					{Backend: "a_80", Address: "192.0.2.1:80", State: "UP", Sessions: 1, Total: 20, Errors: 3, Check: "L4OK"},
					{Backend: "a_80", Address: "192.0.2.2:80", State: "DOWN", Check: "L4CON"},
					{Backend: "b_80", Address: "192.0.2.3:80", State: "no check"},
				},
			},
		}},
	}
	for name, test := range map[string]struct {
		table func([]cli.Answer, time.Time) *metav1.Table
		want  string
	}{
		"pods": {podTable, `
POD        GENERATION   CONNECTIONS   REQUESTS    SERVERS     OLD WORKERS   UP          RELOADED                                  PROBLEM
silent     <unknown>    <unknown>     <unknown>   <unknown>   <unknown>     <unknown>   <unknown>                                 no answer within 15s
starting   <unknown>    <unknown>     <unknown>   <unknown>   <unknown>     <unknown>   never                                     HAProxy does not answer
behind     2 of 3       0             0           0/0         2             60m         60s ago: certificates changed (refused)   refused
good       3            12            3456        2/3         0             2d          never
`},
		"servers": {serverTable, `
POD    BACKEND   ADDRESS        STATE      NOW   TOTAL   ERRORS   CHECK
good   a_80      192.0.2.1:80   UP         1     20      3        L4OK
good   a_80      192.0.2.2:80   DOWN       0     0       0        L4CON
good   b_80      192.0.2.3:80   no check   0     0       0        <none>
`},
		"reloads": {reloadTable, `
POD      AGE   GENERATION   CONFIGURATION   REASON                   FAILURE
behind   60s   3            load-3          certificates changed     no key
behind   60m   2            load-2          listener ports changed
`},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			must.Do(t, printers.NewTablePrinter(printers.PrintOptions{}).PrintObj(test.table(answers, now), &out))
			if got := "\n" + regexp.MustCompile(` +\n`).ReplaceAllString(out.String(), "\n"); got != test.want {
				t.Errorf("got%s\nwant%s", got, test.want)
			}
		})
	}
}
