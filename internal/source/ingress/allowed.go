package ingress

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"

	appv1 "gateway/api/app/v1"
	"gateway/internal/source/gatewayapi"
)

// AllowedHostnames is what the owner of the Gateway of a class says of hostnames.
type AllowedHostnames struct {
	appv1.AllowedHostnames
	// Labels are those of namespaces.
	Labels map[string]labels.Set
}

// within returns Ingresses without the hosts that their namespaces may not use. What several Ingresses say of a host is
// one before there are routes: nobody may say anything of a host of others.
func (t *translator) within(all []*networkingv1.Ingress) []*networkingv1.Ingress {
	if t.Hostnames == nil {
		return all
	}
	by := "the GatewayConfig of Gateway " + t.Namespace + "/" + GatewayName(t.Name)
	hostnames := gatewayapi.NewHostnames(t.Namespace, t.Hostnames.AllowedHostnames, by, t.Hostnames.Labels)
	isOlder := func(a, b *networkingv1.Ingress) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	}
	kept := map[*networkingv1.Ingress]*networkingv1.Ingress{}
	for _, ingress := range slices.SortedFunc(slices.Values(all), isOlder) {
		kept[ingress] = t.withHosts(ingress, func(host string) bool {
			why := hostnames.Use(ingress.Namespace, host)
			if why != "" {
				t.refuse(Subject{"Ingress", ingress.Namespace, ingress.Name}, "host %s: %s", cmp.Or(host, "*"), why)
			}
			return why == ""
		})
	}
	var rest []*networkingv1.Ingress
	for _, ingress := range all {
		if kept[ingress] != nil {
			rest = append(rest, kept[ingress])
		}
	}
	return rest
}

// withHosts returns an Ingress with some of its hosts and aliases, nil if it has none of them.
func (t *translator) withHosts(ingress *networkingv1.Ingress, mayUse func(host string) bool) *networkingv1.Ingress {
	some := *ingress
	some.Spec.Rules = slices.DeleteFunc(slices.Clone(ingress.Spec.Rules), func(rule networkingv1.IngressRule) bool {
		host := strings.ToLower(rule.Host)
		return (host == "" || isHostname(host)) && !mayUse(host)
	})
	isOfAll := ingress.Spec.DefaultBackend != nil && len(ingress.Spec.Rules) == 0
	if len(some.Spec.Rules) == 0 && (!isOfAll || !mayUse("")) {
		return nil
	}
	const alias = Prefix + "server-alias"
	if names, ok := ingress.Annotations[alias]; ok {
		allowed := slices.DeleteFunc(list(names), func(name string) bool {
			name = strings.ToLower(name)
			return isHostname(name) && !mayUse(name)
		})
		some.Annotations = maps.Clone(ingress.Annotations)
		some.Annotations[alias] = strings.Join(allowed, ",")
	}
	return &some
}
