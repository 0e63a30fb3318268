package keyserver

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/keystream"
	"gateway/internal/proxypod"
	source "gateway/internal/source/appv1"
	"gateway/internal/source/gatewayapi"
)

// attachedRole is the ClusterRole by which agents may read routes.
const attachedRole = "gateway-attached"

// claimsOf returns what a claimant claims. One that is gone claims nothing.
func (s *state) claimsOf(c claimant) claims {
	of := claims{needs: map[string]need{}, on: map[claimant]bool{}}
	name := types.NamespacedName{Namespace: c.namespace, Name: c.name}
	switch c.kind {
	case kindOwn:
		if own := s.own[name]; own != nil {
			s.addOwn(&of, own)
		}
	case kindGateway:
		if gateway := s.gateways[name]; gateway != nil && s.setGateway(&of, name) {
			s.addUses(&of, gateway)
		}
	case kindSet:
		s.leave(name)
		if set := s.sets[name]; set != nil {
			s.addSet(&of, set)
		}
	case kindAttachment:
		if attachment := s.attachments[name]; attachment != nil {
			s.addAttachment(&of, attachment)
		}
	}
	return of
}

// setGateway sets the Gateway of our own that was made for one of the Gateway API. It returns false if there is none.
func (s *state) setGateway(of *claims, parent types.NamespacedName) bool {
	of.gateway = types.NamespacedName{Namespace: parent.Namespace, Name: gatewayapi.DataPlaneName(parent.Name)}
	of.on[claimant{kindOwn, of.gateway.Namespace, of.gateway.Name}] = true
	own := s.own[of.gateway]
	return own != nil && proxypod.Parent(own) == parent.Name
}

// addOwn adds what a Gateway of our own names. Of one that was made for another, that one names the certificates.
func (s *state) addOwn(of *claims, own *appv1.Gateway) {
	of.gateway = types.NamespacedName{Namespace: own.Namespace, Name: own.Name}
	mounts := source.MountsOf(own)
	if proxypod.Parent(own) == "" {
		s.add(of, keystream.KindSecret, own.Namespace, useCertificate, mounts.Certificates...)
	}
	s.add(of, keystream.KindSecret, own.Namespace, useUsers, mounts.Users...)
	s.add(of, keystream.KindSecret, own.Namespace, useLogin, mounts.Logins...)
	s.add(of, keystream.KindConfigMap, own.Namespace, useConfigMap, mounts.ConfigMaps...)
}

// addSet adds what a ListenerSet names, if its Gateway lets it add listeners.
func (s *state) addSet(of *claims, set *gatewayv1.ListenerSet) {
	parent := gatewayapi.GatewayOf(set)
	name := types.NamespacedName{Namespace: parent.Namespace, Name: parent.Name}
	if parent != gatewayapi.GatewayParent(name.Namespace, name.Name) {
		return
	}
	of.on[claimant{kindGateway, name.Namespace, name.Name}] = true
	of.on[claimant{kindNamespace, "", set.Namespace}] = true
	gateway := s.gateways[name]
	if s.setGateway(of, name) && gateway != nil && (gatewayapi.Objects{Namespaces: s.namespaces}).AllowsSet(gateway, set) {
		s.addUses(of, s.join(team{of.gateway, set.Namespace}, set))
	}
}

// addUses adds what a Gateway of the Gateway API or a ListenerSet names and may use.
func (s *state) addUses(of *claims, object metav1.Object) {
	uses := gatewayapi.UsesOf(object, func(namespace string) []*gatewayv1.ReferenceGrant {
		if namespace != object.GetNamespace() {
			of.on[claimant{kindGrant, namespace, ""}] = true
		}
		var all []*gatewayv1.ReferenceGrant
		for _, grant := range s.grants[namespace] {
			all = append(all, grant)
		}
		return all
	})
	for _, u := range uses {
		if !u.IsGranted {
			continue
		}
		purpose := useCertificate
		if u.Kind == keystream.KindConfigMap {
			purpose = useConfigMap
		}
		s.add(of, u.Kind, u.Namespace, purpose, gatewayapi.LocalName(of.gateway.Namespace, u.Namespace, u.Name))
	}
}

// addAttachment adds what the objects of a namespace need of a Gateway: it can be of that namespace only. The operator
// lets the Gateway's agents read this namespace because there are such objects. A GatewayAttachment alone proves
// nothing: it is in the Gateway's namespace.
func (s *state) addAttachment(of *claims, attachment *appv1.GatewayAttachment) {
	spec := &attachment.Spec
	of.gateway = types.NamespacedName{Namespace: attachment.Namespace, Name: spec.GatewayName}
	of.on[claimant{kindOwn, of.gateway.Namespace, of.gateway.Name}] = true
	own := s.own[of.gateway]
	isBound := meta.IsStatusConditionTrue(attachment.Status.Conditions, appv1.ConditionBound)
	if own == nil || !metav1.IsControlledBy(attachment, own) || !isBound || !s.hasConsent(of, spec.Namespace) {
		return
	}
	s.add(of, keystream.KindSecret, spec.Namespace, useUsers, namesOf(spec.Users)...)
	s.add(of, keystream.KindSecret, spec.Namespace, useLogin, namesOf(spec.Logins)...)
	s.add(of, keystream.KindConfigMap, spec.Namespace, useConfigMap, namesOf(spec.ConfigMaps)...)
}

// hasConsent reports whether the agents of a Gateway may read the routes of a namespace.
func (s *state) hasConsent(of *claims, namespace string) bool {
	if namespace == of.gateway.Namespace {
		return true
	}
	of.on[claimant{kindBinding, namespace, ""}], of.on[claimant{kindBinding, "", ""}] = true, true
	return s.consents[consent{namespace, of.gateway}]+s.consents[consent{"", of.gateway}] > 0
}

// setBinding takes in a RoleBinding or ClusterRoleBinding.
func (s *state) setBinding(binding metav1.Object, role rbacv1.RoleRef, subjects []rbacv1.Subject, gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var now []consent
	for _, subject := range subjects {
		gateway, err := gatewayOf(accountPrefix + subject.Namespace + ":" + subject.Name)
		if err == nil && subject.Kind == rbacv1.ServiceAccountKind && role.Kind == "ClusterRole" && role.Name == attachedRole && !gone {
			now = append(now, consent{binding.GetNamespace(), gateway})
		}
	}
	before := s.bindings[nameOf(binding)]
	if slices.Equal(before, now) {
		return
	}
	if s.bindings[nameOf(binding)] = now; len(now) == 0 {
		delete(s.bindings, nameOf(binding))
	}
	for _, c := range now {
		s.consents[c]++
	}
	for _, c := range before {
		if s.consents[c]--; s.consents[c] == 0 {
			delete(s.consents, c)
		}
	}
	s.changed(claimant{kindBinding, binding.GetNamespace(), ""})
}

func namesOf(refs []appv1.ObjectReference) []string {
	names := make([]string, len(refs))
	for i := range refs {
		names[i] = refs[i].Name
	}
	return names
}

// add adds objects of a namespace, by the names that the Gateway's pods know them by. Of a namespace that the server
// may not read, they get what has this name in the Gateway's namespace, as without a key server.
func (s *state) add(of *claims, kind, namespace string, uses use, local ...string) {
	for _, name := range local {
		n := need{target{id{kind, namespace, name}, true}, uses}
		if namespace == of.gateway.Namespace || !s.reads(namespace) {
			n.target = target{id{kind, of.gateway.Namespace, name}, false}
		}
		key := keystream.Key(kind, name)
		n.uses |= of.needs[key].uses
		of.needs[key] = n
	}
}

// isSame reports whether two versions of an object differ in nothing that claims depend on.
func isSame(before, now metav1.Object) bool {
	return before.GetGeneration() != 0 && before.GetGeneration() == now.GetGeneration() && before.GetUID() == now.GetUID()
}

func nameOf(object metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}

// put takes in an object of a kind that claims or is depended on.
func put[T metav1.Object](
	s *state, all map[types.NamespacedName]T, kind string, object T, gone bool, isSame func(before, now T) bool,
) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := nameOf(object)
	before, known := all[name]
	if all[name] = object; gone {
		delete(all, name)
	}
	if gone || !known || !isSame(before, object) {
		s.changed(claimant{kind, name.Namespace, name.Name})
	}
}

func (s *state) setGatewayAPI(gateway *gatewayv1.Gateway, gone bool) {
	put(s, s.gateways, kindGateway, gateway, gone, func(before, now *gatewayv1.Gateway) bool { return isSame(before, now) })
}

func (s *state) setListenerSet(set *gatewayv1.ListenerSet, gone bool) {
	put(s, s.sets, kindSet, set, gone, func(before, now *gatewayv1.ListenerSet) bool { return isSame(before, now) })
}

func (s *state) setAttachment(attachment *appv1.GatewayAttachment, gone bool) {
	put(s, s.attachments, kindAttachment, attachment, gone, func(_, _ *appv1.GatewayAttachment) bool { return false })
}

// setOwn takes in a Gateway of our own. The streams of one that is gone end: its pods are about to go, and keep what
// they have until then.
func (s *state) setOwn(own *appv1.Gateway, gone bool) {
	if gone {
		s.endAll(nameOf(own))
	}
	put(s, s.own, kindOwn, own, gone, func(before, now *appv1.Gateway) bool {
		return isSame(before, now) && proxypod.Parent(before) == proxypod.Parent(now) &&
			before.Status.Attachments == nil && now.Status.Attachments == nil
	})
}

// setGrant takes in a ReferenceGrant.
func (s *state) setGrant(grant *gatewayv1.ReferenceGrant, gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.grants[grant.Namespace]
	if in == nil {
		in = map[string]*gatewayv1.ReferenceGrant{}
		s.grants[grant.Namespace] = in
	}
	if in[grant.Name] = grant; gone {
		delete(in, grant.Name)
	}
	if len(in) == 0 {
		delete(s.grants, grant.Namespace)
	}
	s.changed(claimant{kindGrant, grant.Namespace, ""})
}

// setNamespace takes in the labels of a namespace.
func (s *state) setNamespace(name string, now labels.Set, gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, known := s.namespaces[name]
	if s.namespaces[name] = now; gone {
		delete(s.namespaces, name)
	}
	if gone || !known || !labels.Equals(before, now) {
		s.changed(claimant{kindNamespace, "", name})
	}
}

// split returns the kind and name that a key stands for.
func split(key string) (kind, name string) {
	for _, kind := range []string{keystream.KindSecret, keystream.KindConfigMap} {
		if prefix := keystream.Key(kind, ""); len(key) > len(prefix) && key[:len(prefix)] == prefix {
			return kind, key[len(prefix):]
		}
	}
	return "", ""
}
