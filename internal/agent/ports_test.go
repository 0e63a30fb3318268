package agent

import (
	"net"
	"testing"

	"gateway/internal/haproxy/render"
	"gateway/internal/must"
	"gateway/internal/routing"
)

// TestAPortIsTakenOfEitherFamily: where no addresses are given, HAProxy binds each port for IPv4 and for IPv6.
func TestAPortIsTakenOfEitherFamily(t *testing.T) {
	for network, address := range map[string]string{"tcp4": "127.0.0.1:0", "tcp6": "[::1]:0"} {
		taken := must.Get(net.Listen(network, address))(t)
		port := int32(taken.Addr().(*net.TCPAddr).Port)
		running := routing.Table{Listeners: []routing.Listener{{Port: port + 1}}}
		wanted := routing.Table{Listeners: []routing.Listener{{Port: port + 1}, {Port: port}}}
		if err := checkPorts(t.Context(), render.Bind{}, running, wanted); err == nil {
			t.Errorf("%s is taken, and that is not seen", taken.Addr())
		}
		must.Do(t, taken.Close())
	}
}
