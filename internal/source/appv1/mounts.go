package appv1

import (
	"iter"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/certificates"
	"gateway/internal/model"
	"gateway/internal/proxypod"
)

// MountsOf returns what a Gateway and its objects name.
func MountsOf(gateway *appv1.Gateway) proxypod.Mounts {
	var m proxypod.Mounts
	for _, listener := range gateway.Spec.Listeners {
		if listener.TLS == nil {
			continue
		}
		m.Certificates = appendNames(m.Certificates, listener.TLS.CertificateRefs)
		if validation := listener.TLS.ClientValidation; validation != nil {
			m.ConfigMaps = appendNames(m.ConfigMaps, validation.CACertificateRefs)
		}
	}
	if ref := gateway.Spec.BackendClientCertificateRef; ref != nil {
		m.Certificates = append(m.Certificates, ref.Name)
	}
	for _, backend := range gateway.Spec.Backends {
		if backend.TLS != nil {
			m.ConfigMaps = appendNames(m.ConfigMaps, backend.TLS.CACertificateRefs)
		}
	}
	for _, action := range Actions(gateway) {
		m.WAF = m.WAF || action.WAF != nil
		for _, mount := range action.Mounts() {
			m.ConfigMaps = append(m.ConfigMaps, mount.ConfigMaps...)
			if mount.Secret != "" {
				m.Users = append(m.Users, mount.Secret)
			}
			if mount.File == certificates.SessionKeysFile {
				m.Logins = append(m.Logins, mount.Secret)
			}
		}
	}
	if attachments := gateway.Status.Attachments; attachments != nil {
		m.Users, m.Logins = appendNames(m.Users, attachments.Users), appendNames(m.Logins, attachments.Logins)
		m.ConfigMaps = appendNames(m.ConfigMaps, attachments.ConfigMaps)
		m.VerifiesNames, m.WAF = attachments.VerifiesNames, m.WAF || attachments.WAF
	}
	for _, names := range []*[]string{&m.Certificates, &m.Users, &m.Logins, &m.ConfigMaps} {
		slices.Sort(*names)
		*names = slices.Compact(*names)
	}
	return m
}

// WithAttachments returns a Gateway with what its GatewayAttachments say in its status, in the form that operators of
// earlier releases wrote there. What they wrote counts, too, as long as it is there.
func WithAttachments(gateway *appv1.Gateway, attachments []*appv1.GatewayAttachment) *appv1.Gateway {
	if len(attachments) == 0 {
		return gateway
	}
	all := appv1.Attachments{}
	if gateway.Status.Attachments != nil {
		all = *gateway.Status.Attachments.DeepCopy()
	}
	for _, attachment := range attachments {
		spec := &attachment.Spec
		if !metav1.IsControlledBy(attachment, gateway) {
			continue
		}
		all.Namespaces = append(all.Namespaces, appv1.AttachedNamespace{Name: spec.Namespace, Resources: spec.Resources})
		all.ConfigMaps, all.Users = append(all.ConfigMaps, spec.ConfigMaps...), append(all.Users, spec.Users...)
		all.Logins = append(all.Logins, spec.Logins...)
		all.VerifiesNames, all.WAF = all.VerifiesNames || spec.VerifiesNames, all.WAF || spec.WAF
	}
	with := *gateway
	with.Status.Attachments = &all
	return &with
}

// MountsOfFilters returns what the filters of a Gateway need.
func MountsOfFilters(gateway *appv1.Gateway) []model.Mount {
	var all []model.Mount
	for _, action := range Actions(gateway) {
		all = append(all, action.Mounts()...)
	}
	return all
}

// Actions returns what the filters of each rule and listener of a Gateway do, with the kind and name of the route or
// listener.
func Actions(gateway *appv1.Gateway) iter.Seq2[model.Reference, *model.Action] {
	return func(yield func(model.Reference, *model.Action) bool) {
		goOn := true
		add := func(kind string, name appv1.Name, filters []appv1.RuleFilter) {
			if goOn && len(filters) > 0 {
				goOn = yield(model.Reference{Kind: kind, Route: string(name)}, ListenerFilters("", gateway.Namespace, Filters{RouteFilterSpec: appv1.RouteFilterSpec{Filters: filters}}))
			}
		}
		for i := range gateway.Spec.Listeners {
			add(Listener, gateway.Spec.Listeners[i].Name, gateway.Spec.Listeners[i].Filters)
		}
		for i := range gateway.Spec.Routes {
			for j := range gateway.Spec.Routes[i].Rules {
				add(HTTPRoute, gateway.Spec.Routes[i].Name, gateway.Spec.Routes[i].Rules[j].Filters)
			}
		}
	}
}

func appendNames(names []string, refs []appv1.ObjectReference) []string {
	return append(names, namesOf(refs)...)
}
