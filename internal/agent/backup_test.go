package agent

import (
	"testing"

	appv1 "gateway/api/app/v1"
)

// TestBackupService: the backup answers while the Service has no ready endpoint, whether endpoints or the settings
// change. Nothing reloads.
func TestBackupService(t *testing.T) {
	t.Parallel()
	backup := func(name string) []appv1.Backend {
		return []appv1.Backend{{Name: "service-0", Port: 80, BackendSettings: appv1.BackendSettings{Backup: &appv1.BackupService{Name: name, Port: 80}}}}
	}
	first := newEndpoint(t, "first")
	r := newWaitingRig(t, func(spec *appv1.GatewaySpec) { spec.Backends = backup("service-1") }, first)
	running := r.process()
	expect := func(want string) {
		t.Helper()
		r.expectAnswer(r.begin("GET / HTTP/1.1\r\n\r\n"), want)
	}
	have := func(service string, port int32, addresses ...string) {
		t.Helper()
		slice := newSlice(service, port)
		for _, address := range addresses {
			slice.Endpoints = append(slice.Endpoints, newReady(address))
		}
		r.put(r.followed(testSlices), slice)
		r.agent.pass(t.Context())
	}
	expect("first")
	have("service-0", first.port)
	expect("second")
	third := newEndpoint(t, "third")
	have("service-1", third.port, "127.0.0.1")
	expect("third")
	have("service-0", first.port, "127.0.0.1")
	expect("first")
	have("service-0", first.port)
	expect("third")

	r.put(r.followed(testSlices), newSlice("auth", newEndpoint(t, "other").port, newReady("127.0.0.1")))
	r.gatewaySeen = r.gatewaySeen.DeepCopy()
	r.gatewaySeen.Generation++
	r.gatewaySeen.Spec.Backends = backup("auth")
	r.put(r.agent.watch.gateways, r.gatewaySeen)
	r.agent.changed()
	r.agent.pass(t.Context())
	expect("other")
	r.expectNoReload(running)
}
