package convert

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	appv1 "gateway/api/app/v1"
	"gateway/cmd/kubectl-gateway/internal/admission"
	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/internal/haproxy/filters"
	"gateway/internal/operator/status"
	"gateway/internal/routing"
	source "gateway/internal/source/appv1"
)

// Input is the input of Convert.
type Input struct {
	Documents []cli.Document
	// Namespace is that of objects which name none.
	Namespace string
	// Name is that of the Gateway which takes the Ingresses of a namespace.
	Name string
	// Class is that of the Ingresses to convert; "": those of all classes.
	Class string
	// Open names what may be lost though it may keep clients out: annotations, and objects as KIND/NAMESPACE/NAME.
	Open []string
}

// Result is the result of Convert.
type Result struct {
	Gateways []*appv1.Gateway
	// Notes say what is not carried over, or differently.
	Notes []Note
	// Converted and PassedOver count objects by kind.
	Converted, PassedOver map[string]int
	// GatewayAPI reports whether objects of the Gateway API were passed over.
	GatewayAPI bool
}

// objects are the objects to convert, and those that they refer to. All are in a namespace.
type objects struct {
	closings
	ingresses []*networkingv1.Ingress
	// defaultClass is that of Ingresses which name none, "" if it is not in the input.
	defaultClass string

	// services are not converted, but asked for their ports, and what is spoken there.
	services map[types.NamespacedName]*corev1.Service
}

// appProtocol returns that of a port of a Service, "" if it has none or the Service is not in the input.
func (o *objects) appProtocol(service types.NamespacedName, number int32) string {
	if found := o.services[service]; found != nil {
		for _, port := range found.Spec.Ports {
			if port.Port == number && cmp.Or(port.Protocol, corev1.ProtocolTCP) == corev1.ProtocolTCP {
				return or(port.AppProtocol, "")
			}
		}
	}
	return ""
}

// protocolProblem returns why requests to a port of a Service are answered with 500; "" if its appProtocol is one that
// is spoken. tls reports whether spec.backends has tls for it.
func (o *objects) protocolProblem(service types.NamespacedName, number int32, tls bool) string {
	protocol := o.appProtocol(service, number)
	problem := status.ProtocolProblem(protocol, tls)
	if problem == "" {
		return ""
	}
	return fmt.Sprintf("requests to port %d of Service %s are answered with 500: it has appProtocol %q, %s", number, service.Name, protocol, problem)
}

// Convert returns Gateways that replace the Ingresses.
func Convert(in Input) (*Result, error) {
	r := newReader(in)
	for _, document := range in.Documents {
		if err := r.read(document); err != nil {
			return nil, err
		}
	}
	r.chooseClass(in.Class)
	gateways := fromIngresses(&r.objects, in, r.notes)
	for _, gateway := range gateways {
		name := objectName(gateway)
		for _, problem := range routing.Problems(source.Translate(gateway), filters.Problem) {
			r.note(name+" Gateway", "%s", problem.Message)
		}
		object, err := toObject(gateway)
		if err != nil {
			return nil, err
		}
		if err := admission.Admit(&unstructured.Unstructured{Object: object}); err != nil {
			r.note(name+" Gateway", "the API server refuses it, so correct it first: %v", err)
		}
	}
	slices.SortStableFunc(r.all, func(a, b Note) int { return strings.Compare(a.Object, b.Object) })
	return &Result{Gateways: gateways, Notes: r.all, Converted: r.converted, PassedOver: r.passedOver, GatewayAPI: r.gatewayAPI}, nil
}

// newGateway returns an empty Gateway.
func newGateway(namespace, name string) *appv1.Gateway {
	return &appv1.Gateway{
		TypeMeta:   metav1.TypeMeta{APIVersion: appv1.SchemeGroupVersion.String(), Kind: "Gateway"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
	}
}

func objectName(object metav1.Object) string {
	return object.GetNamespace() + "/" + object.GetName()
}

// compareAge orders objects by when they were made.
func compareAge(a, b metav1.Object) int {
	return a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time)
}

// compareNames orders objects by namespace and name.
func compareNames(a, b metav1.Object) int { return strings.Compare(objectName(a), objectName(b)) }

// or returns what a pointer points to, or else another value.
func or[T any](value *T, otherwise T) T {
	if value == nil {
		return otherwise
	}
	return *value
}
