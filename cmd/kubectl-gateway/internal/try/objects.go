package try

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/internal/agent"
	"gateway/internal/endpoints"
	"gateway/internal/model"
)

// objects are the objects of the files, completed.
type objects struct {
	namespace, name string
	// gateway has the ports that are used on this machine. Its origins have no generations.
	gateway *model.Gateway
	// moved are the ports that are used in place of those in the files.
	moved map[int32]int32
	// problems are the parts of the Gateway that are not served, and doubts those that are hardly meant so. hasWarnings
	// reports whether there is a doubt about the Gateway or the files.
	problems, doubts []string
	hasWarnings      bool
	// unserved are the listeners whose certificates or CAs cannot be used.
	unserved map[string]bool
	// helpers are the programs of proxy pods that rules need, and absent tells of those that are not built.
	helpers []helper
	absent  []string
	// services and slices come from the files, or are made up where the files have none, by name.
	services map[types.NamespacedName]*corev1.Service
	slices   map[types.NamespacedName][]*discoveryv1.EndpointSlice
	// builtIn are the Service ports that the built-in backend stands for.
	builtIn []builtIn
	// secrets are certificates and keys, and configMaps are CA certificates, by name and file.
	secrets, configMaps map[string]map[string][]byte
}

// setEndpoints makes addresses all endpoints of a Service port. It adds the port to the Service if it is missing.
func (o *objects) setEndpoints(backend model.Backend, addresses ...netip.AddrPort) {
	name := types.NamespacedName{Namespace: backend.Namespace, Name: backend.Service}
	service := o.services[name].DeepCopy()
	if service == nil {
		service = &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
	}
	i := slices.IndexFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == backend.Port })
	if i < 0 {
		i = len(service.Spec.Ports)
		service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{Name: fmt.Sprintf("port-%d", backend.Port), Port: backend.Port})
	}
	o.services[name] = service
	for _, address := range addresses {
		family := discoveryv1.AddressTypeIPv4
		if address.Addr().Is6() {
			family = discoveryv1.AddressTypeIPv6
		}
		o.slices[name] = append(o.slices[name], &discoveryv1.EndpointSlice{
			AddressType: family,
			Ports:       []discoveryv1.EndpointPort{{Name: ptr.To(service.Spec.Ports[i].Name), Port: ptr.To(int32(address.Port()))}},
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{address.Addr().String()}}},
		})
	}
}

// parseEndpoints reads the values of --endpoint.
func parseEndpoints(values map[string]string) (map[string]netip.AddrPort, error) {
	parsed := map[string]netip.AddrPort{}
	for backend, value := range values {
		_, port, _ := strings.Cut(backend, ":")
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return nil, cli.Usagef("--endpoint %s=%s: name the Service and its port, as cart:80", backend, value)
		}
		address, err := netip.ParseAddrPort(value)
		if err != nil {
			return nil, cli.Usagef("--endpoint %s=%s: the address has to be like 127.0.0.1:3000", backend, value)
		}
		parsed[backend] = address
	}
	return parsed, nil
}

// fileSource is the agent's source: the objects as they were loaded last.
type fileSource struct {
	mu         sync.Mutex
	objects    *objects
	generation int64
	uid        types.UID
	// pending is what the agent has not asked for yet.
	pending agent.Changes
	changed func()
}

// set replaces the objects. It returns the generation that the Gateway has with them, and whether there is anything
// new.
func (s *fileSource) set(o *objects) (generation int64, changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.objects
	if before == nil || !reflect.DeepEqual(before.gateway, o.gateway) {
		s.generation++
		s.pending.Gateway, s.pending.UID = withGeneration(o.gateway, s.generation), s.uid
		changed = true
	}
	if before != nil {
		all := maps.Clone(before.services)
		maps.Copy(all, o.services)
		for name := range all {
			if !reflect.DeepEqual(before.services[name], o.services[name]) || !reflect.DeepEqual(before.slices[name], o.slices[name]) {
				s.pending.Services = append(s.pending.Services, name)
				changed = true
			}
		}
	}
	s.objects = o
	if changed && s.changed != nil {
		s.changed()
	}
	return s.generation, changed
}

// withGeneration returns the Gateway with a generation, which the API server would count.
func withGeneration(gateway *model.Gateway, generation int64) *model.Gateway {
	counted := *gateway
	counted.Origins = slices.Clone(gateway.Origins)
	for i := range counted.Origins {
		counted.Origins[i].Generation = generation
	}
	return &counted
}

// source returns what a new agent reads.
func (s *fileSource) source() agent.Source {
	s.mu.Lock()
	s.pending = agent.Changes{Gateway: withGeneration(s.objects.gateway, s.generation), UID: s.uid}
	s.mu.Unlock()
	return agent.Source{
		Run: func(ctx context.Context, changed func()) {
			s.mu.Lock()
			s.changed = changed
			s.mu.Unlock()
			changed()
			<-ctx.Done()
		},
		Changes: func(anew bool) (agent.Changes, bool) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if anew {
				s.pending.Gateway, s.pending.UID = withGeneration(s.objects.gateway, s.generation), s.uid
			}
			changes := s.pending
			s.pending = agent.Changes{}
			return changes, true
		},
		Cluster: endpoints.Cluster{
			Service: func(namespace, name string) *corev1.Service {
				return s.now().services[types.NamespacedName{Namespace: namespace, Name: name}]
			},
			Slices: func(namespace, name string) []*discoveryv1.EndpointSlice {
				return s.now().slices[types.NamespacedName{Namespace: namespace, Name: name}]
			},
		},
	}
}

func (s *fileSource) now() *objects {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects
}
