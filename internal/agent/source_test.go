package agent

import (
	"context"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"gateway/internal/endpoints"
	"gateway/internal/model"
	"gateway/internal/proxyconfig"
)

// memory is a Source without an API server: a Gateway, and Services of one endpoint each, by "NAMESPACE/NAME".
type memory struct {
	mu      sync.Mutex
	changes Changes
	gateway *model.Gateway
	ports   map[string]int32
	changed func()
}

func (m *memory) source() Source {
	return Source{
		Run: func(ctx context.Context, changed func()) {
			m.mu.Lock()
			m.changed = changed
			m.mu.Unlock()
			changed()
			<-ctx.Done()
		},
		Changes: func(anew bool) (Changes, bool) {
			m.mu.Lock()
			defer m.mu.Unlock()
			changes := m.changes
			if m.changes = (Changes{}); changes.Gateway != nil {
				m.gateway = changes.Gateway
			} else if anew {
				changes.Gateway = m.gateway
			}
			return changes, true
		},
		Cluster: endpoints.Cluster{
			Service: func(_, name string) *corev1.Service { return newService(name) },
			Slices: func(namespace, service string) []*discoveryv1.EndpointSlice {
				m.mu.Lock()
				defer m.mu.Unlock()
				return []*discoveryv1.EndpointSlice{newSlice(service, m.ports[namespace+"/"+service], newReady("127.0.0.1"))}
			},
		},
	}
}

// put has the agent see a Gateway, if there is one, and a Service whose endpoint is another.
func (m *memory) put(gateway *model.Gateway, namespace, service string, e *endpoint) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.changes.Gateway = gateway
	if e != nil {
		m.changes.Services = append(m.changes.Services, types.NamespacedName{Namespace: namespace, Name: service})
		m.ports[namespace+"/"+service] = e.port
	}
	if m.changed != nil {
		m.changed()
	}
}

// TestObjectsInSeveralNamespaces: a Gateway is made of several objects, whose Services have the same name. No API
// server is needed.
func TestObjectsInSeveralNamespaces(t *testing.T) {
	t.Parallel()
	r, objects := newRig(t), &memory{ports: map[string]int32{}}
	own := model.Origin{Kind: "Gateway", Namespace: "infra", Name: "web", Generation: 1}
	routes := []model.Origin{
		{Kind: "HTTPRoute", Namespace: "shop", Name: "shop", Generation: 7}, {Kind: "HTTPRoute", Namespace: "blog", Name: "blog", Generation: 3},
	}
	gateway := func() *model.Gateway {
		g := &model.Gateway{Origins: append([]model.Origin{own}, routes...)}
		g.Listeners = []model.Listener{{Origin: own, Name: "http", Port: r.port, Protocol: model.ProtocolHTTP}}
		var made []model.Route
		for _, origin := range routes {
			made = append(made, model.Route{
				Origin: origin, Name: origin.Name, Listeners: []string{"http"}, Hostnames: []string{""},
				Rules: []model.Rule{{
					Action:   &model.Action{},
					Matches:  []model.Match{{PathType: model.Prefix, Path: "/" + origin.Name}},
					Backends: []model.Target{{Backend: model.Backend{Namespace: origin.Namespace, Service: "api", Port: 80}, Weight: 1}},
				}},
			})
		}
		g.Routes, g.MaxConnections, g.MaxHeaders, g.MaxHeaderBytes = model.Ordered(made...), 1000, 100, 16384
		return g
	}
	objects.put(gateway(), "shop", "api", newEndpoint(t, "shop"))
	objects.put(gateway(), "blog", "api", newEndpoint(t, "blog"))
	source := objects.source()
	r.options.Source, r.options.Gateways, r.options.Core = &source, nil, nil
	r.startAgent()
	r.startHAProxy()
	r.eventually("the pod is ready", r.agent.probes.ready)
	r.expectBody("/shop", "shop")
	r.expectBody("/blog", "blog")
	running := r.process()
	expectLive := func(what string) *proxyconfig.Version {
		t.Helper()
		return r.expectProxyConfig(what, func(c proxyconfig.Config) bool {
			return c.Live != nil && slices.Equal(c.Live.Origins, append([]model.Origin{own}, routes...))
		}).Live
	}
	first := expectLive("the version has all objects")

	// One of the Services has another endpoint, and then one of the routes another name.
	objects.put(nil, "blog", "api", newEndpoint(t, "moved"))
	r.expectBody("/blog", "moved")
	r.expectBody("/shop", "shop")
	routes[1].Name, routes[1].Generation = "news", 4
	objects.put(gateway(), "", "", nil)
	r.expectBody("/news", "moved")
	if live := expectLive("the version has the new generation"); live.Hash == first.Hash {
		t.Errorf("the version is %+v, and was %+v", live, first)
	}
	r.expectNoReload(running)
}
