package conformance

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"gateway/internal/backendtls"
	"gateway/internal/certificates"
	"gateway/internal/haproxy/filters"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/render"
	haproxy "gateway/internal/haproxy/runtime"
	"gateway/internal/model"
	"gateway/internal/routing"
	"gateway/internal/source/gatewayapi"
	"gateway/internal/unixsocket"
)

// proxy is the HAProxy of a Gateway, on an address of its own.
type proxy struct {
	address string
	paths   ir.Paths
	haproxy *haproxytest.Instance
	files   map[string][]byte
}

// sync gives every Gateway a HAProxy that does what the objects want, and writes their status then.
func (s *cluster) sync(ctx context.Context, state *state) error {
	result := gatewayapi.Translate(state.Objects)
	var problems []model.Problem
	var errs []error
	for parent, plane := range result.Planes {
		table, found := routing.Compile(plane, filters.Problem)
		problems = append(problems, found...)
		errs = append(errs, s.load(ctx, state, parent, table))
	}
	for parent, p := range s.proxies {
		if result.Planes[parent] == nil {
			p.haproxy.Stop()
			delete(s.proxies, parent)
		}
	}
	return errors.Join(append(errs, s.writeStatus(ctx, state, result.Status(problems, s)))...)
}

// load makes the HAProxy of a Gateway run a table.
func (s *cluster) load(ctx context.Context, state *state, parent gatewayapi.Parent, table routing.Table) error {
	p := s.proxies[parent]
	if p == nil {
		s.addresses++
		p = &proxy{address: fmt.Sprintf("127.1.%d.%d", s.addresses/250, s.addresses%250+1), paths: haproxytest.NewPaths(s.t)}
		p.paths.CertificateDir = filepath.Join(filepath.Dir(p.paths.RunDir), "certificates")
		p.paths.RelaySocket = filepath.Join(p.paths.RunDir, "relay.sock")
		listener, err := unixsocket.Listen(p.paths.RelaySocket)
		if err != nil {
			return err
		}
		go func() { _ = new(backendtls.Relay).Serve(s.t.Context(), listener) }() // what fails, tests see
	}
	input, err := s.input(ctx, state, parent, table, p)
	if err != nil {
		return err
	}
	files := render.Render(input).AllFiles()
	switch {
	case p.haproxy == nil:
		p.haproxy = haproxytest.Start(s.t, p.paths, files)
		s.proxies[parent] = p
	case maps.EqualFunc(files, p.files, bytes.Equal):
		return nil
	default:
		p.haproxy.WriteFiles(files)
		if err := haproxy.NewMaster(p.haproxy.MasterSocket).Reload(ctx); err != nil {
			return fmt.Errorf("%v: %w", parent, err)
		}
	}
	p.files = files
	return nil
}

func (s *cluster) input(ctx context.Context, state *state, parent gatewayapi.Parent, table routing.Table, p *proxy) (render.Input, error) {
	in := render.Input{
		Table: table, Backends: map[routing.Backend]render.BackendState{}, Certificates: map[string][]render.Certificate{},
		Authorities: map[string][]byte{}, Paths: p.paths, Bind: render.Bind{Addresses: []string{p.address}},
	}
	in.Table.MaxConnections, in.Table.MaxHeaders, in.Table.MaxHeaderBytes = 1000, 100, 16384
	for _, backend := range table.Backends() {
		found, err := s.backend(ctx, state, backend)
		if err != nil {
			return in, err
		}
		in.Backends[backend] = found
	}
	for name, configMap := range state.configMaps {
		in.Authorities[gatewayapi.LocalName(parent.Namespace, name.Namespace, name.Name)] = []byte(configMap.Data[certificates.AuthorityFile])
	}
	secrets := map[string]*corev1.Secret{}
	for name, secret := range state.secrets {
		secrets[gatewayapi.LocalName(parent.Namespace, name.Namespace, name.Name)] = secret
	}
	for i := range table.Listeners {
		listener := &table.Listeners[i]
		if listener.TLS == nil {
			continue
		}
		for _, name := range listener.TLS.Secrets {
			joined, err := p.writeCertificate(name, secrets[name])
			if err != nil {
				return in, err
			}
			if joined != nil {
				certificate := render.Certificate{Secret: name, Names: namesFor(listener.Hostname, joined)}
				in.Certificates[listener.Name] = append(in.Certificates[listener.Name], certificate)
			}
		}
	}
	joined, err := p.writeCertificate(table.BackendCertificate, secrets[table.BackendCertificate])
	in.HasBackendCertificate = joined != nil
	return in, err
}

// writeCertificate writes what a Secret holds for HAProxy, and returns it; nil: it cannot be used.
func (p *proxy) writeCertificate(name string, secret *corev1.Secret) ([]byte, error) {
	if secret == nil {
		return nil, nil
	}
	pair, problem := certificates.Join(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if problem != "" {
		return nil, nil
	}
	dir := filepath.Join(p.paths.CertificateDir, name)
	return pair.Joined, errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, certificates.JoinedFile), pair.Joined, 0o600))
}

// namesFor returns the names of a certificate that are within a listener's hostname.
func namesFor(hostname string, joined []byte) []string {
	block, _ := pem.Decode(joined)
	if block == nil {
		return nil
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil
	}
	var names []string
	for _, name := range certificate.DNSNames {
		switch {
		case name == "*":
		case model.HostnameMatches(hostname, name):
			names = append(names, name)
		case model.HostnameMatches(name, hostname):
			names = append(names, hostname)
		}
	}
	return names
}

// writeStatus writes what is not so yet.
func (s *cluster) writeStatus(ctx context.Context, state *state, status gatewayapi.Status) error {
	var errs []error
	for _, object := range state.Classes {
		if wanted, ours := status.Classes[object.Name]; ours {
			errs = append(errs, write(ctx, s, object, func() { object.Status.Conditions = merge(object.Status.Conditions, wanted.Conditions) }))
		}
	}
	for _, object := range state.Gateways {
		if wanted, ours := status.Gateways[client.ObjectKeyFromObject(object)]; ours {
			errs = append(errs, write(ctx, s, object, func() { setGateway(object, wanted) }))
		}
	}
	for _, object := range state.ListenerSets {
		if wanted, ours := status.ListenerSets[client.ObjectKeyFromObject(object)]; ours {
			errs = append(errs, write(ctx, s, object, func() { setListenerSet(object, wanted) }))
		}
	}
	for _, object := range state.HTTPRoutes {
		errs = append(errs, write(ctx, s, object, func() { setParents("HTTPRoute", object, &object.Status.RouteStatus, status) }))
	}
	for _, object := range state.GRPCRoutes {
		errs = append(errs, write(ctx, s, object, func() { setParents("GRPCRoute", object, &object.Status.RouteStatus, status) }))
	}
	for _, object := range state.TLSRoutes {
		errs = append(errs, write(ctx, s, object, func() { setParents("TLSRoute", object, &object.Status.RouteStatus, status) }))
	}
	for _, object := range state.TCPRoutes {
		errs = append(errs, write(ctx, s, object, func() { setParents("TCPRoute", object, &object.Status.RouteStatus, status) }))
	}
	for _, object := range state.UDPRoutes {
		errs = append(errs, write(ctx, s, object, func() { setParents("UDPRoute", object, &object.Status.RouteStatus, status) }))
	}
	for _, object := range state.Policies {
		errs = append(errs, write(ctx, s, object, func() {
			before := object.Status.Ancestors
			object.Status.Ancestors = status.Policies[client.ObjectKeyFromObject(object)]
			for i := range object.Status.Ancestors {
				ancestor, conditions := &object.Status.Ancestors[i], []metav1.Condition{}
				for _, old := range before {
					if equality.Semantic.DeepEqual(old.AncestorRef, ancestor.AncestorRef) {
						conditions = old.Conditions
					}
				}
				ancestor.Conditions = merge(conditions, ancestor.Conditions)
			}
		}))
	}
	return errors.Join(errs...)
}

// write changes the status of an object, and writes it if that made a difference.
func write(ctx context.Context, s *cluster, object client.Object, change func()) error {
	before := object.DeepCopyObject()
	change()
	if equality.Semantic.DeepEqual(before, object) {
		return nil
	}
	return client.IgnoreNotFound(s.Status().Update(ctx, object))
}

func setGateway(object *gatewayv1.Gateway, wanted gatewayv1.GatewayStatus) {
	before := object.Status.DeepCopy()
	object.Status.Addresses = wanted.Addresses
	object.Status.AttachedListenerSets = wanted.AttachedListenerSets
	object.Status.Conditions = merge(before.Conditions, wanted.Conditions)
	object.Status.Listeners = nil
	for _, listener := range wanted.Listeners {
		var conditions []metav1.Condition
		for _, old := range before.Listeners {
			if old.Name == listener.Name {
				conditions = old.Conditions
			}
		}
		listener.Conditions = merge(conditions, listener.Conditions)
		object.Status.Listeners = append(object.Status.Listeners, listener)
	}
}

func setListenerSet(object *gatewayv1.ListenerSet, wanted gatewayv1.ListenerSetStatus) {
	before := object.Status.DeepCopy()
	object.Status.Conditions = merge(before.Conditions, wanted.Conditions)
	object.Status.Listeners = nil
	for _, listener := range wanted.Listeners {
		var conditions []metav1.Condition
		for _, old := range before.Listeners {
			if old.Name == listener.Name {
				conditions = old.Conditions
			}
		}
		listener.Conditions = merge(conditions, listener.Conditions)
		object.Status.Listeners = append(object.Status.Listeners, listener)
	}
}

// setParents replaces the status of a route at parents of ours.
func setParents(kind string, object client.Object, routeStatus *gatewayv1.RouteStatus, status gatewayapi.Status) {
	before := routeStatus.DeepCopy()
	parents := []gatewayv1.RouteParentStatus{}
	for _, old := range before.Parents {
		if old.ControllerName != gatewayapi.ControllerName {
			parents = append(parents, old)
		}
	}
	for _, parent := range status.Routes[gatewayapi.Object{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName()}] {
		var conditions []metav1.Condition
		for _, old := range before.Parents {
			if equality.Semantic.DeepEqual(old.ParentRef, parent.ParentRef) {
				conditions = old.Conditions
			}
		}
		parent.Conditions = merge(conditions, parent.Conditions)
		parents = append(parents, parent)
	}
	routeStatus.Parents = parents
}

// Plane reports whether a Gateway has a HAProxy: what it runs is what there is to run.
func (s *cluster) Plane(parent gatewayapi.Parent) (live bool, reason, message string) {
	return s.proxies[parent] != nil, "Pending", "there is no HAProxy yet"
}

// Addresses returns the addresses of the HAProxy of a Gateway.
func (s *cluster) Addresses(parent gatewayapi.Parent) []gatewayv1.GatewayStatusAddress {
	if p := s.proxies[parent]; p != nil {
		ip := gatewayv1.IPAddressType
		return []gatewayv1.GatewayStatusAddress{{Type: &ip, Value: p.address}}
	}
	return nil
}

// Missing says that all objects are live.
func (s *cluster) Missing(gatewayapi.Parent, gatewayapi.Needs) string { return "" }

// ClusterIPs are none: there are no Services in front of HAProxy.
func (s *cluster) ClusterIPs(gatewayapi.Parent) []string { return nil }

// Unreadable says that all namespaces can be read.
func (s *cluster) Unreadable(gatewayapi.Parent, string) string { return "" }

// merge returns wanted conditions with the times of those that do not change.
func merge(before, wanted []metav1.Condition) []metav1.Condition {
	var merged []metav1.Condition
	for _, condition := range wanted {
		condition.LastTransitionTime = metav1.NewTime(time.Now().Truncate(time.Second))
		if old := meta.FindStatusCondition(before, condition.Type); old != nil && old.Status == condition.Status {
			condition.LastTransitionTime = old.LastTransitionTime
		}
		condition.Reason = cmp.Or(condition.Reason, condition.Type)
		merged = append(merged, condition)
	}
	return merged
}
