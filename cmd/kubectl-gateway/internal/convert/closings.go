package convert

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"gateway/cmd/kubectl-gateway/internal/cli"
)

// target is an object that requests come by. Without kind and name, it is every object of the namespace; without a
// namespace, every object.
type target struct{ kind, namespace, name string }

func (t target) String() string {
	switch {
	case t.kind != "":
		return fmt.Sprintf("%s %s", t.kind, strings.TrimPrefix(t.namespace+"/"+t.name, "/"))
	case t.namespace != "":
		return "all of namespace " + t.namespace
	}
	return "all namespaces"
}

// closings are the objects whose requests get 503 because an access rule is lost.
type closings struct {
	// open are the names of what the user says may be lost: annotations, and objects as KIND/NAMESPACE/NAME.
	open   []string
	closed map[target]bool
}

// close closes targets for a lost rule with a name, unless the user allows to lose it. It returns what happens to
// requests.
func (c *closings) close(name string, targets ...target) string {
	if slices.Contains(c.open, name) {
		return "requests are let through"
	}
	for _, t := range targets {
		c.closed[t] = true
	}
	return "until then, or until --open names it, requests are answered with 503"
}

// isClosed reports whether requests that come by an object get 503.
func (c *closings) isClosed(kind, namespace, name string) bool {
	return c.closed[target{kind, namespace, name}] || c.closed[target{namespace: namespace}] || c.closed[target{}]
}

// flagName is how --open names an object.
func flagName(kind string, object metav1.Object) string { return kind + "/" + objectName(object) }

const otherController = "it is for another controller, and not carried over: do what it does in another way"

// closeByAnnotations closes an object that has annotations of controllers.
func (r *reader) closeByAnnotations(document cli.Document) {
	object := document.Object
	for _, annotation := range slices.Sorted(maps.Keys(object.GetAnnotations())) {
		if cli.IsController(annotation) {
			then := r.close(annotation, target{object.GetKind(), object.GetNamespace(), object.GetName()})
			r.note(documentName(document), "annotation %s: %s; %s", annotation, otherController, then)
		}
	}
}

// closeByPolicy closes the targets of a policy that is lost.
func (r *reader) closeByPolicy(policy cli.Document) {
	var closed []target
	for _, t := range r.targets(policy) {
		if t.kind == "" || t.kind == "Ingress" || t.kind == "Service" {
			closed = append(closed, t)
		}
	}
	if len(closed) == 0 {
		return
	}
	then := r.close(flagName(policy.Object.GetKind(), policy.Object), closed...)
	for _, t := range closed {
		r.note(documentName(policy), "it is for %s, and not carried over: do what it does in another way; %s", t, then)
	}
}

// targets returns the targets of an object: by reference as policies of the Gateway API have them, by labels as some
// have them, and for others, of Istio, all of the namespace or, in Istio's own namespace, everything.
func (r *reader) targets(policy cli.Document) []target {
	var all []target
	spec, _, _ := unstructured.NestedMap(policy.Object.Object, "spec")
	for _, field := range []string{"targetRef", "targetRefs", "targetReference"} {
		for _, ref := range cli.Maps(spec[field]) {
			all = append(all, newTarget(ref, policy.Object.GetNamespace()))
		}
	}
	for _, selector := range cli.Maps(spec["targetSelectors"]) {
		kind, _ := selector["kind"].(string)
		matches := labelSelector(selector)
		for _, other := range r.documents {
			object := inNamespace(r.namespace, other).Object
			_, everywhere := selector["namespaces"]
			if object.GetKind() == kind && (everywhere || object.GetNamespace() == policy.Object.GetNamespace()) && matches.Matches(labels.Set(object.GetLabels())) {
				all = append(all, target{kind, object.GetNamespace(), object.GetName()})
			}
		}
	}
	switch {
	case !cli.IsIstioPolicy(policy) || len(all) > 0:
	case policy.Object.GetNamespace() == "istio-system" && spec["selector"] == nil && spec["workloadSelector"] == nil:
		all = append(all, target{})
	default:
		all = append(all, target{namespace: policy.Object.GetNamespace()})
	}
	return all
}

// newTarget returns the target of a reference. It ignores the group: it is better to close too much.
func newTarget(ref map[string]any, namespace string) target {
	field := func(name string) string { text, _ := ref[name].(string); return text }
	t := target{field("kind"), namespace, field("name")}
	if other := field("namespace"); other != "" {
		t.namespace = other
	}
	if t.kind == "Namespace" {
		return target{namespace: t.name}
	}
	return t
}

// labelSelector returns the selector with the fields of a Kubernetes label selector. An invalid one selects everything.
func labelSelector(from map[string]any) labels.Selector {
	var source metav1.LabelSelector
	content, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(content, &source)
	}
	selector, invalid := metav1.LabelSelectorAsSelector(&source)
	if err != nil || invalid != nil {
		return labels.Everything()
	}
	return selector
}
