package logs

import (
	"encoding/json"
	"iter"
	"strings"
	"testing"
	"time"
)

const (
	prefix     = "shop-gateway-"
	accessLine = `2026-11-21T12:00:00.123456789Z {"client":"192.0.2.1","port":"80","method":"GET","host":"shop.example.com","path":"/a\u001b[31m\u202e","status":404,"bytesOut":9,"msTotal":3,"route":"shop","rule":"1","backend":"-","filter":"JWT","server":"<NOSRV>","termination":"PR"}`
	failed     = `2026-11-21T12:00:00Z {"client":"192.0.2.1","port":"443","method":"<BADREQ>","host":"-","path":"-","status":0,"route":"-","rule":"-","backend":"-","server":"<NOSRV>","termination":"PR","error":"SSL handshake failure","tlsError":"error:0A00009C:SSL routines::http request"}`
	alert      = "2026-11-21T12:00:01Z [ALERT] (1) : \x1b[31mno\u009b"
)

func printed(t *testing.T, asJSON bool, lines ...string) string {
	t.Helper()
	var b strings.Builder
	p := newPrinter(&b, prefix)
	p.json = asJSON
	for _, text := range lines {
		if err := p.print(parse(prefix+"x-1", text)); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

// TestNothingButTextGetsToTheTerminal: a client's path and HAProxy's own words have no control characters.
func TestNothingButTextGetsToTheTerminal(t *testing.T) {
	out := printed(t, false, accessLine, failed, alert)
	for _, want := range []string{"2026-11-21T12:00:00.123Z  x-1", "404", "3ms", `GET shop.example.com/a\x1b[31m\u202e (PR JWT)`, "shop[1]", "SSL handshake failure on port 443: error:0A00009C:SSL routines::http request (PR)", `[ALERT] (1) : \x1b[31mno\u009b`} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%q", want, out)
		}
	}
	if strings.ContainsAny(out, "\x1b\u202e\u009b") {
		t.Errorf("the output has control characters: %q", out)
	}
	for line := range strings.Lines(printed(t, true, accessLine, alert)) {
		var object map[string]any
		if err := json.Unmarshal([]byte(line), &object); err != nil || object["pod"] != prefix+"x-1" {
			t.Errorf("%q is read as %v, %v", line, object, err)
		}
	}
}

func TestFilter(t *testing.T) {
	for _, test := range []struct {
		routes, hosts, statuses, filters []string
		request, alert                   bool
	}{
		{nil, nil, nil, nil, true, true},
		{[]string{"other", "shop"}, nil, nil, nil, true, false},
		{[]string{"other"}, nil, nil, nil, false, false},
		{nil, []string{"Shop.example.com"}, nil, nil, true, false},
		{nil, []string{"*.example.com"}, []string{"200", "4xx"}, []string{"RateLimit", "JWT"}, true, false},
		{nil, []string{"*.shop.example.com"}, nil, nil, false, false},
		{nil, nil, []string{"405-599"}, nil, false, false},
		{nil, nil, nil, []string{"RateLimit"}, false, false},
	} {
		statuses, err := parseStatuses(test.statuses)
		if err != nil {
			t.Fatal(err)
		}
		f := filter{routes: test.routes, hosts: test.hosts, filters: test.filters, statuses: statuses}
		if r, a := f.shows(parse("p", accessLine)), f.shows(parse("p", alert)); r != test.request || a != test.alert {
			t.Errorf("%+v shows the request: %v, the alert: %v", test, r, a)
		}
	}
	for _, bad := range []string{"", "4x", "xx", "600", "500-400", "a-b"} {
		if _, err := parseStatuses([]string{bad}); err == nil {
			t.Errorf("the status %q is taken", bad)
		}
	}
}

func TestMerge(t *testing.T) {
	log := func(seconds ...int64) iter.Seq2[line, error] {
		return func(yield func(line, error) bool) {
			for _, s := range seconds {
				if !yield(line{time: time.Unix(s, 0)}, nil) {
					return
				}
			}
		}
	}
	var got []int64
	for l, err := range merge([]iter.Seq2[line, error]{log(1, 4, 9), log(), log(2, 3, 10, 11)}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, l.time.Unix())
	}
	want := []int64{1, 2, 3, 4, 9, 10, 11}
	for i := range want {
		if len(got) != len(want) || got[i] != want[i] {
			t.Fatalf("merged %v, want %v", got, want)
		}
	}
}
