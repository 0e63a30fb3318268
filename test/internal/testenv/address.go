package testenv

import (
	"net"
	"testing"

	"gateway/internal/must"
)

// OwnAddress returns an address of an interface of this machine: the API server admits no loopback address as an
// endpoint.
func OwnAddress(t testing.TB) string {
	t.Helper()
	addresses := must.Get(net.InterfaceAddrs())(t)
	for _, address := range addresses {
		if ip, ok := address.(*net.IPNet); ok && ip.IP.To4() != nil && ip.IP.IsGlobalUnicast() {
			return ip.IP.String()
		}
	}
	t.Fatal("this machine has no address but the loopback one")
	return ""
}
