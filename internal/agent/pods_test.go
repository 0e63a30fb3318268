package agent

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/haproxy/ir"
	"gateway/internal/proxypod"
)

// TestPodsComeAndGo: HAProxy knows which pods' requests count together, and takes no reload for that.
func TestPodsComeAndGo(t *testing.T) {
	t.Parallel()
	r := newPassRig(t, 1)
	limit := appv1.RuleFilter{Type: appv1.RuleFilterRateLimit, RateLimit: &appv1.RateLimit{Limits: []appv1.RequestLimit{{Requests: 1, Unit: appv1.RateLimitHour}}}}
	r.gatewaySeen.Spec.Routes[0].Rules[0].Filters = []appv1.RuleFilter{limit}
	r.agent.pass(t.Context())
	r.haproxy = haproxytest.Start(t, r.options.Paths, nil)
	r.agent.pass(t.Context())
	running := r.process()
	ids := func() string { return r.haproxy.Worker("show map " + r.options.Paths.Map(ir.PodsFile)) }
	own, other := ir.PodID(r.options.Pod), ir.PodID("other")
	if got := ids(); !strings.HasSuffix(strings.TrimSpace(got), ir.PodsKey+" "+own) {
		t.Errorf("HAProxy knows of %s, want its own %s", got, own)
	}
	slice := newSlice(proxypod.ChildName(gatewayN), 80, newReady("10.0.0.1"), newReady("10.0.0.2"))
	slice.Labels[proxypod.LabelGateway] = gatewayN
	slice.Endpoints[0].TargetRef = &corev1.ObjectReference{Kind: "Pod", Name: r.options.Pod}
	slice.Endpoints[1].TargetRef = &corev1.ObjectReference{Kind: "Pod", Name: "other"}
	r.put(r.followed(testSlices), slice)
	r.agent.pass(t.Context())
	if got := ids(); !strings.HasSuffix(strings.TrimSpace(got), ir.PodsKey+" "+own+other) {
		t.Errorf("HAProxy knows of %s, want %s and %s", got, own, other)
	}
	r.expectNoReload(running)
}
