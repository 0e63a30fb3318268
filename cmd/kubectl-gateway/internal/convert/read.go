package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	strictjson "sigs.k8s.io/json"

	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/internal/source/ingress"
)

// reader sorts the objects of documents.
type reader struct {
	ingress.Input
	// documents are all that there are, each in a namespace.
	documents []cli.Document
	// configMap names the controller's ConfigMap; "": unknown. configuring are those that Deployments name.
	configMap   string
	configuring []string
	// certificate is NAMESPACE/NAME of the Secret for hosts without one of their own, "" if unknown.
	certificate string
	// streams are the ConfigMaps with ports for TCP and UDP, with their flags.
	streams    map[string]string
	notes      []ingress.Note
	passedOver int
	gatewayAPI bool
}

// read reads documents whose objects are in a namespace if they name none.
func (r *reader) read(documents []cli.Document, namespace string) error {
	r.streams = map[string]string{}
	r.Services, r.ConfigMaps = map[types.NamespacedName]*corev1.Service{}, map[types.NamespacedName]*corev1.ConfigMap{}
	for _, document := range documents {
		document.Object = document.Object.DeepCopy()
		if document.Object.GetNamespace() == "" {
			document.Object.SetNamespace(namespace)
		}
		r.documents = append(r.documents, document)
	}
	for _, document := range r.documents {
		if err := r.add(document); err != nil {
			return err
		}
	}
	if len(r.Ingresses) == 0 {
		return nil
	}
	r.noteStreams()
	return errors.Join(r.readCertificate(), r.chooseConfiguration())
}

func (r *reader) add(document cli.Document) error {
	object, kind := document.Object, document.Object.GroupVersionKind()
	name := types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
	switch kind.GroupKind() {
	case schema.GroupKind{Group: networkingv1.GroupName, Kind: "Ingress"}, schema.GroupKind{Group: "extensions", Kind: "Ingress"}:
		if kind.GroupVersion() == networkingv1.SchemeGroupVersion {
			found, unknown, err := decode[networkingv1.Ingress](document)
			for _, field := range unknown {
				r.note(document, "%v: it is not carried over", field)
			}
			r.Ingresses = append(r.Ingresses, found)
			return err
		}
		r.note(document, "%s is not read: convert it to %s first", kind.GroupVersion(), networkingv1.SchemeGroupVersion)
	case schema.GroupKind{Group: networkingv1.GroupName, Kind: "IngressClass"}:
		found, _, err := decode[networkingv1.IngressClass](document)
		r.Classes = append(r.Classes, found)
		return err
	case schema.GroupKind{Kind: "Service"}:
		found, _, err := decode[corev1.Service](document)
		r.Services[name] = found
		return err
	case schema.GroupKind{Kind: "ConfigMap"}:
		found, _, err := decode[corev1.ConfigMap](document)
		r.ConfigMaps[name] = found
		return err
	case schema.GroupKind{Group: k8sappsv1.GroupName, Kind: "Deployment"}, schema.GroupKind{Group: k8sappsv1.GroupName, Kind: "DaemonSet"}:
		r.passedOver++
		return r.addController(document)
	default:
		if kind.Group == gatewayv1.GroupName {
			r.gatewayAPI = true
			r.note(document, "the operator serves it as it is, with the GatewayClass gateway")
		} else {
			r.closeByPolicy(document)
		}
	}
	r.passedOver++
	return nil
}

func (r *reader) note(document cli.Document, format string, args ...any) {
	object := document.Object
	about := ingress.Subject{Kind: object.GetKind(), Namespace: object.GetNamespace(), Name: object.GetName()}
	r.notes = append(r.notes, ingress.Note{Object: about, Text: fmt.Sprintf(format, args...)})
}

// decode decodes the object of a document without its status. unknown are the fields that the type does not have.
func decode[T any](document cli.Document) (object *T, unknown []error, err error) {
	unstructured.RemoveNestedField(document.Object.Object, "status")
	content, err := document.Object.MarshalJSON()
	if err == nil {
		object = new(T)
		unknown, err = strictjson.UnmarshalStrict(content, object)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %s: %s", document.Where(err), document, strings.ReplaceAll(err.Error(), "\n", ", "))
	}
	return object, unknown, nil
}

// closeByPolicy closes the targets of a policy that is lost, unless --open names it.
func (r *reader) closeByPolicy(policy cli.Document) {
	object, then := policy.Object, ingress.LetThrough
	isOpen := slices.Contains(r.Open, fmt.Sprintf("%s/%s/%s", object.GetKind(), object.GetNamespace(), object.GetName()))
	for _, target := range r.targets(policy) {
		if target.Kind != "" && target.Kind != "Ingress" && target.Kind != "Service" {
			continue
		}
		if !isOpen {
			r.Closed, then = append(r.Closed, target), ingress.Answered
		}
		r.note(policy, "it is for %s, and not carried over. %s", target, then)
	}
}

// targets returns the targets of an object: by reference as policies of the Gateway API have them, by labels as some
// have them, and for others, of Istio, all of the namespace or, in Istio's own namespace, everything.
func (r *reader) targets(policy cli.Document) []ingress.Target {
	var all []ingress.Target
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
			object := other.Object
			_, everywhere := selector["namespaces"]
			if object.GetKind() == kind && (everywhere || object.GetNamespace() == policy.Object.GetNamespace()) && matches.Matches(labels.Set(object.GetLabels())) {
				all = append(all, ingress.Target{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName()})
			}
		}
	}
	switch {
	case !cli.IsIstioPolicy(policy) || len(all) > 0:
	case policy.Object.GetNamespace() == "istio-system" && spec["selector"] == nil && spec["workloadSelector"] == nil:
		all = append(all, ingress.Target{})
	default:
		all = append(all, ingress.Target{Namespace: policy.Object.GetNamespace()})
	}
	return all
}

// newTarget returns the target of a reference. It ignores the group: it is better to close too much.
func newTarget(ref map[string]any, namespace string) ingress.Target {
	field := func(name string) string { text, _ := ref[name].(string); return text }
	t := ingress.Target{Kind: field("kind"), Namespace: namespace, Name: field("name")}
	if other := field("namespace"); other != "" {
		t.Namespace = other
	}
	if t.Kind == "Namespace" {
		return ingress.Target{Namespace: t.Name}
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
