package gatewayapi

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"gateway/internal/model"
)

// sentinel is the routability that the Gateway API reserves for its conformance suite. It promises nothing.
const sentinel gatewayv1.GatewayAddressRoutabilityType = "testing.x-k8s.io/sentinel"

// requested is an entry of a Gateway's spec.addresses.
type requested gatewayv1.GatewaySpecAddress

// isInCluster reports whether the address has to be a cluster IP of the Service, and isAny whether it may be any.
func (r *requested) isInCluster() bool {
	return r.Routability == gatewayv1.GatewayAddressRoutabilityCluster
}

func (r *requested) isAny() bool {
	return r.Routability == gatewayv1.GatewayAddressRoutabilityDefault || r.Routability == sentinel
}

// rank is the place among the entries of a Gateway that choose an address: those with less choice come first.
func (r *requested) rank() int {
	switch {
	case r.Value != "":
		return 0
	case r.isInCluster():
		return 1
	}
	return 2
}

// check notes the addresses that a Gateway asks for.
func (p *plane) check() {
	inCluster, isAny := "", false
	for i := range p.gateway.Spec.Addresses {
		r := requested(p.gateway.Spec.Addresses[i])
		if kind := ptr.Deref(r.Type, gatewayv1.IPAddressType); kind != gatewayv1.IPAddressType {
			p.refused.no(gatewayv1.GatewayReasonUnsupportedAddress, "addresses: only an IPAddress can be asked for, and not one of type %s", kind)
		}
		switch {
		case r.isInCluster():
			p.isInCluster, inCluster = true, cmp.Or(inCluster, r.Value)
		case r.isAny():
			isAny = true
			if r.Value != "" {
				p.addresses = append(p.addresses, r.Value)
				p.own.Service.Address = r.Value
			}
		}
	}
	if p.isInCluster = p.isInCluster && !isAny; p.isInCluster {
		if p.own.Service.Type != corev1.ServiceTypeClusterIP {
			p.own.Service.Type, p.own.Service.Address = corev1.ServiceTypeClusterIP, ""
		}
		p.own.Service.Address = cmp.Or(inCluster, p.own.Service.Address)
	}
	p.isUnreachable = len(p.gateway.Spec.Addresses) > 0 && !isAny && !p.isInCluster
}

// assigned are the addresses of a Gateway, in the order of its spec, and what is missing of it.
type assigned struct {
	addresses []gatewayv1.GatewayStatusAddress
	missing   []string
	// isImpossible reports whether something is missing that will not come by itself.
	isImpossible bool
}

// assign chooses the addresses of a Gateway. Each entry of its spec gets one of its own.
func (t *translator) assign(p *plane) (all assigned) {
	clusterIPs := t.live.ClusterIPs(p.parent)
	isClusterIP := func(address string) bool {
		return slices.ContainsFunc(clusterIPs, func(ip string) bool { return model.SameAddress(ip, address) })
	}
	var known, inCluster []gatewayv1.GatewayStatusAddress
	for _, address := range t.live.Addresses(p.parent) {
		address.Routability = new(gatewayv1.GatewayAddressRoutabilityDefault)
		if isClusterIP(address.Value) {
			address.Routability = new(gatewayv1.GatewayAddressRoutabilityCluster)
		}
		known = append(known, address)
	}
	if len(p.gateway.Spec.Addresses) == 0 {
		return assigned{addresses: known}
	}
	for _, ip := range clusterIPs {
		inCluster = append(inCluster, gatewayv1.GatewayStatusAddress{
			Type: new(gatewayv1.IPAddressType), Value: ip, Routability: new(gatewayv1.GatewayAddressRoutabilityCluster),
		})
	}
	found := make([]*gatewayv1.GatewayStatusAddress, len(p.gateway.Spec.Addresses))
	taken := map[string]bool{}
	for rank := range 3 {
		for i := range found {
			r := requested(p.gateway.Spec.Addresses[i])
			if r.rank() != rank {
				continue
			}
			if found[i] = r.choose(known, inCluster, taken); found[i] != nil {
				taken[found[i].Value] = true
			}
		}
	}
	for i, address := range found {
		r := requested(p.gateway.Spec.Addresses[i])
		if address != nil {
			all.addresses = append(all.addresses, *address)
			continue
		}
		all.missing = append(all.missing, fmt.Sprintf("addresses[%d]: %s", i, r.problem()))
		all.isImpossible = all.isImpossible || !r.isAny() && (r.Value != "" || !r.isInCluster())
	}
	return all
}

// choose returns an address that is not taken, nil if there is none.
func (r *requested) choose(known, inCluster []gatewayv1.GatewayStatusAddress, taken map[string]bool) *gatewayv1.GatewayStatusAddress {
	from := known
	if r.isInCluster() {
		from = inCluster
	} else if !r.isAny() {
		return nil
	}
	for _, address := range from {
		isOfType := ptr.Deref(address.Type, gatewayv1.IPAddressType) == ptr.Deref(r.Type, gatewayv1.IPAddressType)
		if !isOfType || taken[address.Value] || r.Value != "" && !model.SameAddress(address.Value, r.Value) {
			continue
		}
		if r.Routability == sentinel {
			address.Routability = new(sentinel)
		}
		return &address
	}
	return nil
}

// problem returns why there is no address.
func (r *requested) problem() string {
	switch {
	case !r.isAny() && !r.isInCluster():
		return fmt.Sprintf("the routability %s is not supported: use Cluster, or leave it out", r.Routability)
	case r.Value != "" && r.isInCluster():
		return fmt.Sprintf("the Service does not have the cluster IP %s: leave the value out", r.Value)
	case r.Value != "":
		return "the Service does not have the address " + r.Value
	case r.isInCluster():
		return "the Service has no other cluster IP"
	}
	return "the Service has no address for it yet"
}

// condition returns the condition AddressesAssigned; false: nothing is known yet.
func (a *assigned) condition(generation int64) (metav1.Condition, bool) {
	var wrong verdict
	switch {
	case len(a.addresses) == 0 && len(a.missing) == 0:
		return metav1.Condition{}, false
	case len(a.missing) > 0 && len(a.addresses) == 0:
		wrong.no(gatewayv1.GatewayReasonAddressesNotAssigned, "%s", strings.Join(a.missing, "; "))
	case len(a.missing) > 0:
		wrong.no(gatewayv1.GatewayReasonAddressesPartiallyAssigned, "%s", strings.Join(a.missing, "; "))
	}
	return condition(gatewayv1.GatewayConditionAddressesAssigned, generation, wrong), true
}

// unusable returns why a Gateway cannot be reached as it asks for.
func (p *plane) unusable(a *assigned, pending verdict) (v verdict) {
	isAssigned := func(value string) bool {
		return slices.ContainsFunc(a.addresses, func(address gatewayv1.GatewayStatusAddress) bool { return model.SameAddress(address.Value, value) })
	}
	switch {
	case len(p.addresses) > 1:
		v.no(gatewayv1.GatewayReasonAddressNotUsable, "addresses: a Gateway can ask for one address, and not for %d", len(p.addresses))
	case len(p.addresses) == 1 && !isAssigned(p.addresses[0]):
		v.no(gatewayv1.GatewayReasonAddressNotUsable, "the Service does not have the address %s: %s", p.addresses[0],
			cmp.Or(pending.message(), "look at its events"))
	case len(a.addresses) == 0 && a.isImpossible:
		said := strings.Join(a.missing, "; ")
		if why := pending.message(); why != "" {
			said += ": " + why
		}
		v.no(gatewayv1.GatewayReasonAddressNotAssigned, "%s", said)
	}
	return v
}
