// Package endpoints finds the servers of a Service port, from Services and EndpointSlices.
package endpoints

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"

	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/render"
	"gateway/internal/model"
	"gateway/internal/proxypod"
)

// Cluster is the source of Services and EndpointSlices. Both functions return objects that must not be changed.
type Cluster struct {
	// Service returns a Service, nil if there is none.
	Service func(namespace, name string) *corev1.Service
	// Slices returns the EndpointSlices of a Service.
	Slices func(namespace, service string) []*discoveryv1.EndpointSlice
	// Place is where the proxy is.
	Place Place
}

// States returns the state of each of the Service ports. Policies may name backups of them.
func States(backends []model.Backend, policies map[model.Backend]model.BackendPolicy, seen Cluster) map[model.Backend]render.BackendState {
	states := make(map[model.Backend]render.BackendState, len(backends))
	for _, backend := range backends {
		service := seen.Service(backend.Namespace, backend.Service)
		port := servicePort(service, backend.Port)
		if port == nil {
			states[backend] = render.BackendState{}
			continue
		}
		state, policy := render.BackendState{Exists: true}, policies[backend]
		found := seen.Slices(backend.Namespace, backend.Service)
		servers, areReady := seen.Place.serversOf(service, found, port.Name, policy)
		if state.Servers = servers; policy.Backup != (model.Backend{}) {
			state.Servers = seen.withBackup(servers, areReady, policy)
		}
		state.AppProtocol = strings.ToLower(ptr.Deref(port.AppProtocol, ""))
		states[backend] = state
	}
	return states
}

// withBackup returns the servers of a Service port and of its backup, which HAProxy uses while none of the first is
// usable. HAProxy knows no third kind, so endpoints of all places are alike then. Terminating endpoints are not used
// while the backup has ready ones.
func (c Cluster) withBackup(servers []ir.Server, areReady bool, policy model.BackendPolicy) []ir.Server {
	backup := policy.Backup
	service := c.Service(backup.Namespace, backup.Service)
	port := servicePort(service, backup.Port)
	if port == nil {
		return servers
	}
	backups, backupsAreReady := Place{}.serversOf(service, c.Slices(backup.Namespace, backup.Service), port.Name, policy)
	switch {
	case len(backups) == 0 || !areReady && !backupsAreReady && len(servers) > 0:
		return servers
	case !areReady:
		servers = nil
	}
	all := make([]ir.Server, 0, len(servers)+len(backups))
	for _, server := range servers {
		all = append(all, ir.Server{Address: server.Address, Port: server.Port})
	}
	for _, server := range backups {
		all = append(all, ir.Server{Address: server.Address, Port: server.Port, Backup: true})
	}
	return ir.SortServers(all)
}

// servicePort returns a Service's TCP port, nil if there is none. A missing Service has none. Nor has one of type
// ExternalName, which could lead the proxy to addresses that its owner may not reach, or one of proxies, which would be
// a loop.
func servicePort(service *corev1.Service, number int32) *corev1.ServicePort {
	if service == nil || service.Spec.Type == corev1.ServiceTypeExternalName || proxypod.SelectsProxies(service) {
		return nil
	}
	for i := range service.Spec.Ports {
		port := &service.Spec.Ports[i]
		if port.Port == number && isTCP(port.Protocol) {
			return port
		}
	}
	return nil
}

// serversOf returns the endpoints of a Service that take traffic for the port of that name. A Service with two address
// families has each pod in slices of both. Each pod is one server, with its address of the Service's first family,
// unless nothing takes traffic there. It reports whether they are ready.
func (p Place) serversOf(
	service *corev1.Service, endpointSlices []*discoveryv1.EndpointSlice, portName string, policy model.BackendPolicy,
) (servers []ir.Server, areReady bool) {
	if families := service.Spec.IPFamilies; len(families) > 1 {
		others := func(slice *discoveryv1.EndpointSlice) bool { return string(slice.AddressType) != string(families[0]) }
		servers, areReady = p.servers(slices.DeleteFunc(slices.Clone(endpointSlices), others), portName, policy)
		if len(servers) > 0 {
			return servers, areReady
		}
	}
	return p.servers(endpointSlices, portName, policy)
}

// servers returns the endpoints that take traffic for the port of that name, sorted and unique: ready ones or, if
// there are none, serving endpoints that terminate. Requests that can wait are not sent to the latter: such an
// endpoint may refuse connections before its EndpointSlice shows it.
func (p Place) servers(
	endpointSlices []*discoveryv1.EndpointSlice, portName string, policy model.BackendPolicy,
) (servers []ir.Server, areReady bool) {
	var ready, terminating []ir.Server
	var hints []*discoveryv1.EndpointHints // of those that are ready
	for _, slice := range endpointSlices {
		port, ok := endpointPort(slice, portName)
		if !ok {
			continue
		}
		for i := range slice.Endpoints {
			endpoint := &slice.Endpoints[i]
			address, ok := endpointAddress(slice.AddressType, endpoint.Addresses)
			if !ok {
				continue
			}
			server := ir.Server{Address: address, Port: port}
			conditions := endpoint.Conditions
			switch {
			case ptr.Deref(conditions.Ready, true):
				ready, hints = append(ready, server), append(hints, endpoint.Hints)
			case policy.WaitTimeout == 0 && ptr.Deref(conditions.Serving, false) && ptr.Deref(conditions.Terminating, false):
				terminating = append(terminating, server)
			}
		}
	}
	if len(ready) == 0 {
		return ir.SortServers(terminating), false
	}
	p.prefer(ready, hints)
	return ir.SortServers(ready), true
}

// endpointPort returns the number of the slice's TCP port of that name. Endpoints do not have a port without a number.
func endpointPort(slice *discoveryv1.EndpointSlice, name string) (int32, bool) {
	for _, port := range slice.Ports {
		if ptr.Deref(port.Name, "") == name && isTCP(ptr.Deref(port.Protocol, "")) && port.Port != nil {
			return *port.Port, true
		}
	}
	return 0, false
}

// endpointAddress returns the first address, as the API asks of its readers, in the form netip.Addr prints.
func endpointAddress(addressType discoveryv1.AddressType, addresses []string) (string, bool) {
	if addressType != discoveryv1.AddressTypeIPv4 && addressType != discoveryv1.AddressTypeIPv6 || len(addresses) == 0 {
		return "", false
	}
	address, err := netip.ParseAddr(addresses[0])
	if err != nil || address.Zone() != "" {
		return "", false
	}
	return address.String(), true
}

// isTCP treats an empty protocol as the API's default.
func isTCP(protocol corev1.Protocol) bool { return protocol == corev1.ProtocolTCP || protocol == "" }
