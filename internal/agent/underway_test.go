package agent

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	appv1 "gateway/api/app/v1"
	"gateway/internal/proxyconfig"
)

// underWay is what the agent answers to a client at an address.
func (r *rig) underWay(address, query string) (int, proxyconfig.UnderWay) {
	r.t.Helper()
	recorder := httptest.NewRecorder()
	request := httptest.NewRequest(http.MethodGet, proxyconfig.UnderWayPath+query, nil)
	request.RemoteAddr = address
	r.agent.proxyConfig.serveUnderWay(recorder, request)
	var answer proxyconfig.UnderWay
	if err := json.Unmarshal(recorder.Body.Bytes(), &answer); err != nil && recorder.Code == http.StatusOK {
		r.t.Fatalf("the answer is %q: %v", recorder.Body, err)
	}
	return recorder.Code, answer
}

// TestUnderWay: only the pod itself sees a request that hangs, also if its worker is an old one.
func TestUnderWay(t *testing.T) {
	t.Parallel()
	r, _ := serving(t)
	client, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", r.port))
	r.must(err)
	defer client.Close() //nolint:errcheck // the test is over
	_, err = fmt.Fprint(client, "POST /upload?token=secret HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n")
	r.must(err)
	expect := func(isOld bool) {
		r.eventually("the request is under way", func() error {
			code, answer := r.underWay("127.0.0.1:1", "")
			for _, request := range answer.Requests {
				if request.Path == "/upload" && request.WaitsFor == proxyconfig.ForBody && request.IsOld == isOld {
					return nil
				}
			}
			return fmt.Errorf("the answer is %d %+v", code, answer)
		})
	}
	expect(false)
	spec := r.spec("api")
	spec.TrustedProxies = []appv1.CIDR{"192.0.2.0/24"}
	r.expectReport(r.edit(spec), "")
	expect(true)
	for query, want := range map[string]int{"?older=3600": http.StatusOK, "?older=-1": http.StatusBadRequest, "?older=x": http.StatusBadRequest} {
		if code, answer := r.underWay("127.0.0.1:1", query); code != want || len(answer.Requests) != 0 {
			t.Errorf("%s: %d, %+v", query, code, answer)
		}
	}
	if code, _ := r.underWay("192.0.2.1:1", ""); code != http.StatusForbidden {
		t.Errorf("another machine gets %d", code)
	}
}
