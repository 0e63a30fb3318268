package logs

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"gateway/internal/must"
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
	p := &printer{out: &b, prefix: prefix, json: asJSON}
	for _, text := range lines {
		must.Do(t, p.print(parse(prefix+"x-1", text, time.Time{})))
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
		statuses := must.Get(parseStatuses(test.statuses))(t)
		f := filter{routes: test.routes, hosts: test.hosts, filters: test.filters, statuses: statuses}
		if r, a := f.shows(parse("p", accessLine, time.Time{})), f.shows(parse("p", alert, time.Time{})); r != test.request || a != test.alert {
			t.Errorf("%+v shows the request: %v, the alert: %v", test, r, a)
		}
	}
	for _, bad := range []string{"", "4x", "xx", "600", "500-400", "a-b"} {
		if _, err := parseStatuses([]string{bad}); err == nil {
			t.Errorf("the status %q is taken", bad)
		}
	}
}

// TestShadow: logs shows what a filter in shadow would have answered, and finds it by the filter's type.
func TestShadow(t *testing.T) {
	line := strings.Replace(accessLine, `"filter":"JWT","server":"<NOSRV>","termination":"PR"`, `"filter":"-","shadow":{"RateLimit":429,"JWT":401},"server":"s","termination":"--"`, 1)
	if out := printed(t, false, line); !strings.Contains(out, "(shadow: JWT 401) (shadow: RateLimit 429)\n") {
		t.Errorf("got %q", out)
	}
	for name, want := range map[string]bool{"RateLimit": true, "JWT": true, "BasicAuth": false} {
		f := filter{filters: []string{name}}
		if got := f.shows(parse("p", line, time.Time{})); got != want {
			t.Errorf("--filter %s shows it: %v", name, got)
		}
	}
}

// TestFollow has a pod whose log ends, and goes on later, and one that comes.
func TestFollow(t *testing.T) {
	listed, read := 0, 0
	mux := http.NewServeMux()
	mux.HandleFunc("/api/v1/namespaces/shop/pods", func(w http.ResponseWriter, _ *http.Request) {
		list := &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}}}
		if listed++; listed > 1 {
			list.Items = append(list.Items, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "b"}})
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(list)
	})
	mux.HandleFunc("/api/v1/namespaces/shop/pods/a/log", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintln(w, "2026-11-21T12:00:00Z old")
		if read++; read > 1 {
			_, _ = fmt.Fprintln(w, "2026-11-21T12:00:01Z new")
		}
	})
	mux.HandleFunc("/api/v1/namespaces/shop/pods/b/log", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintln(w, "2026-11-21T12:00:02Z first")
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	core, err := corev1client.NewForConfig(&rest.Config{Host: server.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	r := &reader{core: core, namespace: "shop", seen: map[string]time.Time{}, lookAgain: time.Millisecond}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got := map[string][]string{}
	err = r.follow(ctx, "shop", func(l line) error {
		if got[l.pod] = append(got[l.pod], l.text); len(got["a"]) == 2 && len(got["b"]) == 1 {
			cancel()
		}
		return nil
	})
	want := map[string][]string{"a": {"old", "new"}, "b": {"first"}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v (%v), want %v", got, err, want)
	}
}
