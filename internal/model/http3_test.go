package model_test

import (
	"slices"
	"testing"

	"gateway/internal/model"
)

// TestWithoutHTTP3: each port with HTTPS has HTTP/3 or a reason, which any of its listeners may give.
func TestWithoutHTTP3(t *testing.T) {
	t.Parallel()
	https := func(name string, change func(*model.Listener)) model.Listener {
		listener := model.Listener{Name: name, Port: 443, Protocol: model.ProtocolHTTPS, TLS: &model.ListenerTLS{}}
		change(&listener)
		return listener
	}
	plain := https("plain", func(*model.Listener) {})
	for name, test := range map[string]struct {
		listeners []model.Listener
		want      []string
	}{
		"HTTPS":        {[]model.Listener{plain, {Name: "http", Port: 80, Protocol: model.ProtocolHTTP}}, nil},
		"PROXY":        {[]model.Listener{plain, https("b", func(l *model.Listener) { l.ProxyProtocol = true })}, []string{"it takes PROXY headers"}},
		"certificates": {[]model.Listener{https("b", func(l *model.Listener) { l.TLS.ClientCAs = []string{"ca"} }), plain}, []string{"it asks clients for certificates"}},
		"passthrough": {
			[]model.Listener{plain, https("b", func(l *model.Listener) { l.Protocol, l.TLS = model.ProtocolTLS, nil })}, []string{"listener b passes TLS through"},
		},
		"another port": {[]model.Listener{plain, https("b", func(l *model.Listener) { l.Port, l.ProxyProtocol = 8443, true })}, []string{"it takes PROXY headers"}},
	} {
		for i, why := range test.want {
			port := "443"
			if name == "another port" {
				port = "8443"
			}
			test.want[i] = "port " + port + " has no HTTP/3, which http3 asks for: " + why
		}
		gateway := model.Gateway{Listeners: test.listeners}
		if got := gateway.WithoutHTTP3(); got != nil {
			t.Errorf("%s: not asked for: %q", name, got)
		}
		gateway.HTTP3MaxAge = 60
		if got := gateway.WithoutHTTP3(); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}
