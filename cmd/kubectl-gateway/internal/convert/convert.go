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
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/cmd/kubectl-gateway/internal/admission"
	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/internal/operator/status"
	"gateway/internal/routing"
	source "gateway/internal/source/appv1"
)

// Input is what is converted.
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

// Result is what it was converted to.
type Result struct {
	Gateways []*appv1.Gateway
	// Notes say what is not carried over, or differently.
	Notes []Note
	// Converted and PassedOver count objects by kind.
	Converted, PassedOver map[string]int
}

// objects are what is converted, and what that refers to. All are in a namespace.
type objects struct {
	closings
	ingresses []*networkingv1.Ingress
	// defaultClass is that of Ingresses which name none, "" if it is not in the input.
	defaultClass string

	// gateways and what is below are the Gateway API's, of any version that v1 has all fields of.
	gateways   []*gatewayv1.Gateway
	httpRoutes []*gatewayv1.HTTPRoute
	grpcRoutes []*gatewayv1.GRPCRoute
	tlsRoutes  []*gatewayv1.TLSRoute
	tcpRoutes  []*gatewayv1.TCPRoute
	policies   []*gatewayv1.BackendTLSPolicy
	// grants are not converted, but asked whether references across namespaces count.
	grants []*gatewayv1.ReferenceGrant

	// filters are not converted, but in the rules that name them.
	routeFilters map[types.NamespacedName]*appv1.RouteFilter

	// services are not converted, but asked for their ports, and what is spoken there.
	services map[types.NamespacedName]*corev1.Service
	// namespaces are the labels of those in the input.
	namespaces map[string]labels.Set
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

// protocolProblem says why requests to a port of a Service are answered with 500; "" if its appProtocol is one that is
// spoken. tls says whether spec.backends has tls for it.
func (o *objects) protocolProblem(service types.NamespacedName, number int32, tls bool) string {
	protocol := o.appProtocol(service, number)
	problem := status.ProtocolProblem(protocol, tls)
	if problem == "" {
		return ""
	}
	return fmt.Sprintf("requests to port %d of Service %s are answered with 500: it has appProtocol %q, %s", number, service.Name, protocol, problem)
}

// Convert returns the Gateways in place of the Ingresses and of the Gateway API's Gateways and routes.
func Convert(in Input) (*Result, error) {
	r := newReader(in)
	for _, document := range in.Documents {
		if err := r.read(document); err != nil {
			return nil, err
		}
	}
	r.chooseClass(in.Class)
	ingresses := fromIngresses(&r.objects, in, r.notes)
	gateways := append(ingresses, fromGatewayAPI(&r.objects, r.notes)...)
	seen := map[string]int{}
	for i, gateway := range gateways {
		name := objectName(gateway)
		switch other, taken := seen[name]; {
		case taken && other < len(ingresses):
			return nil, cli.Usagef("two Gateways would be named %s: name that of the Ingresses with --name", name)
		case taken:
			return nil, fmt.Errorf("two Gateways of the Gateway API would be named %s: rename one of them", name)
		}
		seen[name] = i
		for _, problem := range routing.Problems(source.Translate(gateway)) {
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
	return &Result{Gateways: gateways, Notes: r.all, Converted: r.converted, PassedOver: r.passedOver}, nil
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
