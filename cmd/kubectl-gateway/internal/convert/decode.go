package convert

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/json"

	"gateway/cmd/kubectl-gateway/internal/cli"
)

// reader sorts the objects of documents.
type reader struct {
	objects
	*notes
	namespace string
	// documents are all that there are.
	documents             []cli.Document
	converted, passedOver map[string]int
	gatewayAPI            bool
}

func newReader(in Input) *reader {
	return &reader{
		objects: objects{
			closings: closings{open: in.Open, closed: map[target]bool{}}, services: map[types.NamespacedName]*corev1.Service{},
		},
		notes: &notes{}, namespace: in.Namespace, documents: in.Documents, converted: map[string]int{}, passedOver: map[string]int{},
	}
}

func (r *reader) read(document cli.Document) error {
	document = inNamespace(r.namespace, document)
	switch kind := document.Object.GroupVersionKind(); kind.GroupKind() {
	case schema.GroupKind{Group: networkingv1.GroupName, Kind: "Ingress"}, schema.GroupKind{Group: "extensions", Kind: "Ingress"}:
		if kind.GroupVersion() != networkingv1.SchemeGroupVersion {
			return r.passOver(document, fmt.Sprintf("%s is not read: convert it to %s first", kind.GroupVersion(), networkingv1.SchemeGroupVersion))
		}
		return readInto(r, document, &r.ingresses)
	case schema.GroupKind{Group: networkingv1.GroupName, Kind: "IngressClass"}:
		if document.Object.GetAnnotations()[networkingv1.AnnotationIsDefaultIngressClass] == "true" {
			r.defaultClass = document.Object.GetName()
		}
		return r.passOver(document, "")
	case schema.GroupKind{Kind: "Service"}:
		return r.readService(document)
	}
	if document.Object.GroupVersionKind().Group == gatewayv1.GroupName {
		r.gatewayAPI = true
		return r.passOver(document, "the operator serves it as it is, with the GatewayClass gateway")
	}
	r.closeByPolicy(document)
	return r.passOver(document, "")
}

// passOver leaves an object out, with a note if somebody could miss it.
func (r *reader) passOver(document cli.Document, why string) error {
	r.passedOver[document.Object.GetKind()]++
	if why != "" {
		r.note(documentName(document), "%s", why)
	}
	return nil
}

// readInto decodes an object to convert. Unknown fields are noted.
func readInto[T any](r *reader, document cli.Document, into *[]*T) error {
	object, unknown, err := decode[T](document)
	if err != nil {
		return err
	}
	for _, field := range unknown {
		r.note(documentName(document), "%v: it is not carried over", field)
	}
	*into = append(*into, object)
	r.converted[document.Object.GetKind()]++
	return nil
}

func (r *reader) readService(document cli.Document) error {
	service, _, err := decode[corev1.Service](document)
	if err != nil {
		return err
	}
	r.closeByAnnotations(document)
	r.services[types.NamespacedName{Namespace: service.Namespace, Name: service.Name}] = service
	return r.passOver(document, "")
}

// decode decodes the object of a document without its status. unknown are the fields that the type does not have.
func decode[T any](document cli.Document) (object *T, unknown []error, err error) {
	unstructured.RemoveNestedField(document.Object.Object, "status")
	content, err := document.Object.MarshalJSON()
	if err == nil {
		object = new(T)
		unknown, err = json.UnmarshalStrict(content, object)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %s: %s", document.Source, document, strings.ReplaceAll(err.Error(), "\n", ", "))
	}
	return object, unknown, nil
}

// inNamespace returns a copy of the document whose object is in the namespace if it names none.
func inNamespace(namespace string, document cli.Document) cli.Document {
	document.Object = document.Object.DeepCopy()
	if document.Object.GetNamespace() == "" {
		document.Object.SetNamespace(namespace)
	}
	return document
}

// documentName names an object in notes.
func documentName(document cli.Document) string {
	return objectName(document.Object) + " " + document.Object.GetKind()
}
