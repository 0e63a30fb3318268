package convert

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/json"

	appv1 "gateway/api/app/v1"
	"gateway/cmd/kubectl-gateway/internal/cli"
)

// reader takes the objects of documents to where they belong.
type reader struct {
	objects
	*notes
	namespace string
	// documents are all that there are.
	documents             []cli.Document
	converted, passedOver map[string]int
}

func newReader(in Input) *reader {
	return &reader{
		objects: objects{
			closings: closings{open: in.Open, closed: map[target]bool{}}, services: map[types.NamespacedName]*corev1.Service{},
			routeFilters: map[types.NamespacedName]*appv1.RouteFilter{},
			namespaces:   map[string]labels.Set{},
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
	case gatewayKind("Gateway"):
		return readInto(r, document, &r.gateways)
	case gatewayKind("HTTPRoute"):
		return readInto(r, document, &r.httpRoutes)
	case gatewayKind("GRPCRoute"):
		return readInto(r, document, &r.grpcRoutes)
	case gatewayKind("TLSRoute"):
		return readInto(r, document, &r.tlsRoutes)
	case gatewayKind("TCPRoute"):
		return readInto(r, document, &r.tcpRoutes)
	case gatewayKind("BackendTLSPolicy"):
		return readInto(r, document, &r.policies)
	case schema.GroupKind{Kind: "Service"}:
		return r.readService(document)
	case schema.GroupKind{Kind: "Namespace"}:
		set := labels.Merge(document.Object.GetLabels(), labels.Set{corev1.LabelMetadataName: document.Object.GetName()})
		r.namespaces[document.Object.GetName()] = set
		return r.passOver(document, "")
	case gatewayKind("ReferenceGrant"):
		grant, _, err := decode[gatewayv1.ReferenceGrant](document)
		if err != nil {
			return err
		}
		r.grants = append(r.grants, grant)
		return r.passOver(document, "")
	case schema.GroupKind{Group: appv1.GroupName, Kind: "RouteFilter"}:
		filter, _, err := decode[appv1.RouteFilter](document)
		if err != nil {
			return err
		}
		r.routeFilters[types.NamespacedName{Namespace: filter.Namespace, Name: filter.Name}] = filter
		return r.passOver(document, "")
	case gatewayKind("GatewayClass"):
		return r.passOver(document, "")
	}
	if !r.closeByPolicy(document) && document.Object.GroupVersionKind().Group == gatewayv1.GroupName {
		return r.passOver(document, "objects of this kind are not carried over")
	}
	return r.passOver(document, "")
}

func gatewayKind(kind string) schema.GroupKind {
	return schema.GroupKind{Group: gatewayv1.GroupName, Kind: kind}
}

// passOver leaves an object out, and notes why if it could be missed.
func (r *reader) passOver(document cli.Document, why string) error {
	r.passedOver[document.Object.GetKind()]++
	if why != "" {
		r.note(documentName(document), "%s", why)
	}
	return nil
}

// readInto decodes an object that is converted. What is not known of it is noted.
func readInto[T any](r *reader, document cli.Document, into *[]*T) error {
	object, unknown, err := decode[T](document)
	if err != nil {
		return err
	}
	if document.Object.GetKind() != "Ingress" { // whose annotations are read as ingress-nginx reads them
		r.closeByAnnotations(document)
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

// decode makes a typed object of a document. What is observed is left out. unknown are the fields that the type does not have.
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
