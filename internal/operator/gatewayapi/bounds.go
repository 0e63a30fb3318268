package gatewayapi

import (
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/types"

	appv1 "gateway/api/app/v1"
	"gateway/internal/logging"
	source "gateway/internal/source/gatewayapi"
)

// What the agents of a Gateway can be told of. The report of a pod has room for each resource of so many namespaces.
const (
	maxNamespaces = 900
	maxMounted    = 256
)

// The kinds of what may be left out, as messages have them.
const (
	leftNamespace = "namespaces"
	leftConfigMap = "ConfigMaps"
	leftUsers     = "Secrets with users or keys"
)

// leftOut is something that the agents of a Gateway are not told of, because they are told of so much else.
type leftOut struct{ kind, name string }

// problem is what the statuses of those who ask for it say.
func (l leftOut) problem() string {
	most := maxMounted
	if l.kind == leftNamespace {
		most = maxNamespaces
	}
	return fmt.Sprintf("the Gateway has %d %s already: remove some, or use another Gateway", most, l.kind)
}

// bounded returns the part of attachments that there is room for, and what is left out. What agents were told of before
// keeps its place, so nobody can take it from others.
func bounded(told, wanted *appv1.Attachments) (*appv1.Attachments, map[leftOut]bool) {
	if wanted == nil {
		return nil, nil
	}
	if told == nil {
		told = &appv1.Attachments{}
	}
	left := map[leftOut]bool{}
	all := *wanted
	namespace := func(n appv1.AttachedNamespace) string { return n.Name }
	name := func(r appv1.ObjectReference) string { return r.Name }
	all.Namespaces = within(maxNamespaces, told.Namespaces, wanted.Namespaces, namespace, leftNamespace, left)
	all.ConfigMaps = within(maxMounted, told.ConfigMaps, wanted.ConfigMaps, name, leftConfigMap, left)
	all.Users = within(maxMounted, told.Users, wanted.Users, name, leftUsers, left)
	all.Logins = nil
	for _, login := range wanted.Logins { // they are among the users
		if !left[leftOut{leftUsers, login.Name}] {
			all.Logins = append(all.Logins, login)
		}
	}
	return &all, left
}

// within returns the wanted elements that there is room for, in their order: first those that were there before.
func within[E any](most int, before, wanted []E, name func(E) string, kind string, left map[leftOut]bool) []E {
	if len(wanted) <= most {
		return wanted
	}
	was := map[string]bool{}
	for _, e := range before {
		was[name(e)] = true
	}
	room := most
	for _, e := range wanted {
		if was[name(e)] {
			room--
		}
	}
	var kept []E
	for _, e := range wanted {
		if !was[name(e)] {
			if room--; room < 0 {
				left[leftOut{kind, name(e)}] = true
				continue
			}
		}
		kept = append(kept, e)
	}
	return kept
}

// noteLeft notes what is left out of the attachments of a Gateway. If that is something else than before, all statuses
// are looked at.
func (c *Controller) noteLeft(gateway *appv1.Gateway, left map[leftOut]bool) {
	name := nameOf(gateway)
	if maps.Equal(left, c.left[name]) {
		return
	}
	for l := range left {
		if !c.left[name][l] {
			logging.Warningf("%s is left out of Gateway %s: %s", l.name, name, l.problem())
		}
	}
	if c.left[name] = left; len(left) == 0 {
		delete(c.left, name)
	}
	c.queue.Add(rebuild)
}

// leftProblem returns why something is left out at a data plane, "" if it is not.
func (o *observed) leftProblem(plane source.Parent, kind, name string) string {
	l := leftOut{kind, name}
	if own := o.own[plane]; own != nil && o.controller.left[types.NamespacedName{Namespace: own.Namespace, Name: own.Name}][l] {
		return l.problem()
	}
	return ""
}
