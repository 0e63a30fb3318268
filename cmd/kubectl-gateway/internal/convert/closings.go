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

// target is an object that requests come by. Without kind and name it is every object of the namespace, without that, of all.
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

// closings are the objects whose requests are answered with 503, as something that may keep clients out is not carried over.
type closings struct {
	// open are the names of what the user says may be lost: annotations, and objects as KIND/NAMESPACE/NAME.
	open   []string
	closed map[target]bool
}

// close closes targets for something with a name, unless that may be lost. It returns what becomes of requests.
func (c *closings) close(name string, targets ...target) string {
	if slices.Contains(c.open, name) {
		return "requests are let through"
	}
	for _, t := range targets {
		c.closed[t] = true
	}
	return "until then, or until --open names it, requests are answered with 503"
}

// isClosed says whether requests that come by an object are answered with 503.
func (c *closings) isClosed(kind, namespace, name string) bool {
	return c.closed[target{kind, namespace, name}] || c.closed[target{namespace: namespace}] || c.closed[target{}]
}

// flagName is how --open names an object.
func flagName(kind string, object metav1.Object) string { return kind + "/" + objectName(object) }

// controllers begin the annotations of the controllers that Ingresses and routes may be for, beside those of the domain
// ingress.kubernetes.io. Any annotation of theirs may keep clients out.
var controllers = []string{
	"haproxy.org/", "haproxy.com/", "haproxy-ingress.github.io/", "konghq.com/", "nginx.org/", "nginx.com/", "projectcontour.io/",
	"contour.heptio.com/", "getambassador.io/", "k8s.apisix.apache.org/", "higress.io/", "networking.gke.io/", "cloud.google.com/", "zalando.org/",
	"haproxy.router.openshift.io/", "route.openshift.io/", "k8s.ngrok.com/", "ingress.cilium.io/", "ingress.citrix.com/", "ingress.bluemix.net/",
	"virtual-server.f5.com/", "gateway.envoyproxy.io/", "gateway.nginx.org/", "kuadrant.io/", "networking.istio.io/", "gateway.k8s.aws/",
}

// isController says whether an annotation is that of a controller.
func isController(annotation string) bool {
	domain, _, _ := strings.Cut(annotation, "/")
	return domain == "ingress.kubernetes.io" || strings.HasSuffix(domain, ".ingress.kubernetes.io") ||
		slices.ContainsFunc(controllers, func(prefix string) bool { return strings.HasPrefix(annotation, prefix) })
}

const otherController = "it is for another controller, and not carried over: do what it does in another way"

// closeByAnnotations closes an object that has annotations of controllers.
func (r *reader) closeByAnnotations(document cli.Document) {
	object := document.Object
	for _, annotation := range slices.Sorted(maps.Keys(object.GetAnnotations())) {
		if isController(annotation) {
			then := r.close(annotation, target{object.GetKind(), object.GetNamespace(), object.GetName()})
			r.note(documentName(document), "annotation %s: %s; %s", annotation, otherController, then)
		}
	}
}

// closeByPolicy closes what an object is for that is not carried over, and says whether there is anything.
func (r *reader) closeByPolicy(policy cli.Document) bool {
	var closed []target
	for _, t := range r.targets(policy) {
		if t.kind == "" || slices.Contains(cli.RoutedKinds, t.kind) {
			closed = append(closed, t)
		}
	}
	if len(closed) == 0 {
		return false
	}
	then := r.close(flagName(policy.Object.GetKind(), policy.Object), closed...)
	for _, t := range closed {
		r.note(documentName(policy), "it is for %s, and not carried over: do what it does in another way; %s", t, then)
	}
	return true
}

// targets returns what an object is for: by reference as policies of the Gateway API are, by labels as some of these are, and
// else, of Istio, for all of its namespace or, in Istio's own, of all.
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
	kind := policy.Object.GroupVersionKind()
	istio := kind.Group == "security.istio.io" || kind.Group == "extensions.istio.io" || kind.Group == "networking.istio.io" && kind.Kind == "EnvoyFilter"
	switch {
	case !istio || len(all) > 0:
	case policy.Object.GetNamespace() == "istio-system" && spec["selector"] == nil && spec["workloadSelector"] == nil:
		all = append(all, target{})
	default:
		all = append(all, target{namespace: policy.Object.GetNamespace()})
	}
	return all
}

// newTarget returns what a reference is to. The group does not count: what is of another one is rather closed in vain.
func newTarget(ref map[string]any, namespace string) target {
	field := func(name string) string { text, _ := ref[name].(string); return text }
	t := target{field("kind"), namespace, field("name")}
	if other := field("namespace"); other != "" {
		t.namespace = other
	}
	switch t.kind {
	case "GatewayClass":
		t.namespace = ""
	case "Namespace":
		t = target{namespace: t.name}
	}
	return t
}

// labelSelector returns the selector with the fields of one of Kubernetes. What is none selects everything.
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
