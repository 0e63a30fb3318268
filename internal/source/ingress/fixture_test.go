package ingress

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	appv1 "gateway/api/app/v1"
)

// home is the namespace of the Gateway, and of objects that name none.
const home = "a"

// parseText returns the objects of a text.
func parseText(t *testing.T, text string) Input {
	t.Helper()
	in := Input{
		Name: "ingress", Namespace: home,
		Services: map[types.NamespacedName]*corev1.Service{}, ConfigMaps: map[types.NamespacedName]*corev1.ConfigMap{},
	}
	for document := range strings.SplitSeq(text, "\n---") {
		var head metav1.PartialObjectMetadata
		if err := yaml.Unmarshal([]byte(document), &head); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		name := types.NamespacedName{Namespace: cmp.Or(head.Namespace, home), Name: head.Name}
		switch head.Kind {
		case "Ingress":
			ingress := parse[networkingv1.Ingress](t, document)
			ingress.Namespace = name.Namespace
			in.Ingresses = append(in.Ingresses, ingress)
		case "IngressClass":
			in.Classes = append(in.Classes, parse[networkingv1.IngressClass](t, document))
		case "Service":
			in.Services[name] = parse[corev1.Service](t, document)
		case "ConfigMap":
			in.ConfigMaps[name] = parse[corev1.ConfigMap](t, document)
		case "":
		default:
			t.Fatalf("unknown kind %q", head.Kind)
		}
	}
	in.Configuration = in.ConfigMaps[types.NamespacedName{Namespace: home, Name: "controller"}]
	return in
}

func parse[T any](t *testing.T, document string) *T {
	t.Helper()
	object := new(T)
	if err := yaml.UnmarshalStrict([]byte(document), object); err != nil {
		t.Fatalf("%v in\n%s", err, document)
	}
	return object
}

// convertText converts the objects of a text.
func convertText(t *testing.T, text string, open ...string) *Result {
	t.Helper()
	in := parseText(t, text)
	in.Open = open
	return Translate(in)
}

// flat is a rule of a route with what its RouteFilter has.
type flat struct {
	gatewayv1.HTTPRouteRule
	extension appv1.RouteFilterSpec
	// route is namespace and name, and parents are the names of listeners and of ListenerSets.
	route   string
	parents []string
}

// path returns the value of the path that the rule is for.
func (f *flat) path() string { return *f.Matches[0].Path.Value }

// filter returns the filter of the rule that meets a condition, nil if there is none.
func (f *flat) filter(meets func(*gatewayv1.HTTPRouteFilter) bool) *gatewayv1.HTTPRouteFilter {
	if i := slices.IndexFunc(f.Filters, func(one gatewayv1.HTTPRouteFilter) bool { return meets(&one) }); i >= 0 {
		return &f.Filters[i]
	}
	return nil
}

// answer returns what becomes of the rule's requests.
func (f *flat) answer() string {
	for _, filter := range f.extension.Filters {
		if filter.DirectResponse != nil {
			return fmt.Sprint(*filter.DirectResponse.StatusCode)
		}
	}
	switch {
	case len(f.BackendRefs) > 0:
		return "Service " + string(f.BackendRefs[0].Name)
	case f.filter(func(one *gatewayv1.HTTPRouteFilter) bool { return one.RequestRedirect != nil }) != nil:
		return "redirect"
	}
	return "500"
}

// objects returns the objects of a type.
func objects[T Object](result *Result) (all []T) {
	for _, object := range result.Objects {
		if one, ok := object.(T); ok {
			all = append(all, one)
		}
	}
	return all
}

// flatten returns the rules of all routes in their order.
func flatten(result *Result) (all []flat) {
	filters := map[string]appv1.RouteFilterSpec{}
	for _, filter := range objects[*appv1.RouteFilter](result) {
		filters[objectName(filter)] = filter.Spec
	}
	for _, route := range objects[*gatewayv1.HTTPRoute](result) {
		var parents []string
		for _, ref := range route.Spec.ParentRefs {
			parents = append(parents, string(ptr.Deref(ref.SectionName, gatewayv1.SectionName(ptr.Deref(ref.Kind, "Gateway")))))
		}
		for _, rule := range route.Spec.Rules {
			one := flat{HTTPRouteRule: rule, route: objectName(route), parents: parents}
			if ref := one.filter(func(f *gatewayv1.HTTPRouteFilter) bool { return f.ExtensionRef != nil }); ref != nil {
				one.extension = filters[route.Namespace+"/"+string(ref.ExtensionRef.Name)]
			}
			all = append(all, one)
		}
	}
	return all
}

// answers returns the path of each rule, and what becomes of its requests.
func answers(result *Result) (all []string) {
	for _, rule := range flatten(result) {
		all = append(all, rule.path()+" "+rule.answer())
	}
	return all
}

// ofIngresses returns the notes about Ingresses.
func ofIngresses(result *Result) (all []Note) {
	for _, note := range result.Notes {
		if note.Object.Kind == "Ingress" {
			all = append(all, note)
		}
	}
	return all
}
