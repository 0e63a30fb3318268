package keyserver

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"gateway/internal/source/gatewayapi"
)

// team is a namespace with ListenerSets that add listeners to a Gateway of our own.
type team struct {
	gateway   types.NamespacedName
	namespace string
}

// teamSets are the ListenerSets of a team, by name, and how many certificates they name. within are these without what
// is beyond the team's budget; nil: nothing is.
type teamSets struct {
	sets         map[string]*gatewayv1.ListenerSet
	certificates int32
	within       map[string]*gatewayv1.ListenerSet
}

// join notes that a ListenerSet adds listeners to a Gateway. It returns the part of it that is within the budget.
func (s *state) join(of team, set *gatewayv1.ListenerSet) *gatewayv1.ListenerSet {
	t := s.teams[of]
	if t == nil {
		t = &teamSets{sets: map[string]*gatewayv1.ListenerSet{}}
		s.teams[of] = t
	}
	t.sets[set.Name] = set
	t.certificates += gatewayapi.CertificatesIn(set)
	s.teamOf[nameOf(set)], s.unsettled[of] = of, true
	if within := t.within[set.Name]; within != nil {
		return within
	}
	return set
}

// leave notes that a ListenerSet adds no listeners any more.
func (s *state) leave(name types.NamespacedName) {
	of, ok := s.teamOf[name]
	if !ok {
		return
	}
	delete(s.teamOf, name)
	t := s.teams[of]
	t.certificates -= gatewayapi.CertificatesIn(t.sets[name.Name])
	delete(t.sets, name.Name)
	s.unsettled[of] = true
}

// settle has the ListenerSets of teams that changed claim anew, where some of them are beyond a budget, or were.
func (s *state) settle() {
	for _, of := range slices.Collect(maps.Keys(s.unsettled)) {
		t, own := s.teams[of], s.own[of.gateway]
		wasBeyond := t.within != nil
		t.within = nil
		if own != nil && of.namespace != of.gateway.Namespace && t.certificates > gatewayapi.MostCertificates(own) {
			t.within = gatewayapi.WithinBudget(own, slices.Collect(maps.Values(t.sets)))
		}
		if wasBeyond || t.within != nil {
			for _, name := range slices.Collect(maps.Keys(t.sets)) {
				s.claim(claimant{kindSet, of.namespace, name})
			}
		}
		if len(t.sets) == 0 {
			delete(s.teams, of)
		}
	}
	clear(s.unsettled)
}
