package agent

import (
	"net"
	"testing"
	"time"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/haproxytest"
)

// TestPropagationLastsUntilHAProxyAnswersByAChange, whatever keeps it from that, and however many changes there are
// meanwhile.
func TestPropagationLastsUntilHAProxyAnswersByAChange(t *testing.T) {
	registerMetrics()
	r := newPassRig(t, 1)
	const changes, seconds = "gateway_agent_propagation_seconds_count", "gateway_agent_propagation_seconds_sum"
	count, sum := metric(t, changes), metric(t, seconds)
	// pass has the agent see a change, some time ago, and expects how many hours were observed.
	pass := func(what string, ago time.Duration, wantHours ...int) {
		t.Helper()
		r.agent.delay.seen.Store(time.Now().Add(-ago).UnixNano())
		r.agent.pass(t.Context())
		total := 0
		for _, hours := range wantHours {
			total += hours
		}
		if n, took := metric(t, changes)-count, int((metric(t, seconds)-sum)/3600); int(n) != len(wantHours) || took != total {
			t.Errorf("%s: %v times were observed, of %d hours together, want %v", what, n, took, wantHours)
		}
	}
	pass("HAProxy is not there yet", time.Hour)
	r.haproxy = haproxytest.Start(t, r.options.Paths, nil)
	pass("it has started", 2*time.Hour)
	pass("nothing that HAProxy has to know", 2*time.Hour)

	taken, err := net.Listen("tcp", "127.0.0.1:0")
	r.must(err)
	r.gatewaySeen = r.gatewaySeen.DeepCopy()
	r.gatewaySeen.Generation++
	port := int32(taken.Addr().(*net.TCPAddr).Port)
	r.gatewaySeen.Spec.Listeners = append(r.gatewaySeen.Spec.Listeners, appv1.Listener{Name: "taken", Port: port, Protocol: appv1.ProtocolHTTP})
	r.put(r.agent.watch.gateways, r.gatewaySeen)
	pass("the port is taken", 3*time.Hour)
	pass("it still is", time.Hour)
	_ = taken.Close()
	r.agent.state.refused = nil
	pass("it is free", 0, 3)
	pass("nothing since", 2*time.Hour, 3)
}

func TestTheGenerationThatIsNotKnownIsZero(t *testing.T) {
	registerMetrics()
	r := newPassRig(t, 1)
	r.agent.state = newState()
	r.agent.reportState()
	if got := metric(t, "gateway_agent_generation"); got != 1 {
		t.Errorf("it is %v", got)
	}
	r.agent.state.running.unknown = reasonCommandsFailed
	r.agent.reportState()
	if got := metric(t, "gateway_agent_generation"); got != 0 {
		t.Errorf("HAProxy may have taken some of the commands, and it is %v", got)
	}
}
