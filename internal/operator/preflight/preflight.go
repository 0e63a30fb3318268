package preflight

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	clientset "gateway/generated/app/clientset/versioned"
	"gateway/internal/kinds"
	"gateway/internal/logging"
	"gateway/internal/proxypod"
	"gateway/internal/source/ingress"
)

const (
	// maxListed is how many missing permissions the message lists.
	maxListed = 4

	// serverPoll is how often an API server that does not answer is asked again, serverLog how often that is logged.
	serverPoll = time.Second
	serverLog  = 30 * time.Second
)

// Permission is something the operator has to be allowed to do.
type Permission struct {
	// Group and Resource are the API's; a subresource follows the resource after a slash.
	Group, Resource string
	// Verbs are all that is done with it.
	Verbs []string
}

var (
	read  = []string{"list", "watch"}
	write = []string{"get", "list", "watch", "create", "patch"}
)

// Permissions are what the operator needs in every namespace it works in: the same as in its ClusterRole.
var Permissions = []Permission{
	{appv1.GroupName, "gateways", read},
	{appv1.GroupName, "gateways/status", []string{"patch"}},
	{appv1.GroupName, "gatewayattachments", read},
	{appv1.GroupName, "gatewayproxies", []string{"list", "watch", "create", "patch"}},
	{appv1.GroupName, "gatewayproxies/status", []string{"patch"}},
	{"", "services", write},
	{"", "serviceaccounts", write},
	{"apps", "daemonsets", write},
	{"apps", "deployments", write},
	{"policy", "poddisruptionbudgets", write},
	{"rbac.authorization.k8s.io", "roles", write},
	{"rbac.authorization.k8s.io", "rolebindings", write},
	{"discovery.k8s.io", "endpointslices", read},
	{"", "events", []string{"create", "patch"}},
}

// ClusterPermissions are what the operator needs, besides, to look after the Gateway API. It does if it works in all
// namespaces.
var ClusterPermissions = slices.Concat([]Permission{
	{"", "namespaces", read},
	{appv1.GroupName, "gateways", []string{"create", "patch", "delete"}},
	{appv1.GroupName, "gatewayattachments", []string{"create", "patch", "delete"}},
	{appv1.GroupName, "gatewayconfigs", read},
	{appv1.GroupName, "routefilters", read},
	{"rbac.authorization.k8s.io", "rolebindings", []string{"delete"}},
	{gatewayv1.GroupName, "referencegrants", read},
	{proxypod.GroupMultiCluster, proxypod.ResourceImports, read},
}, withStatus(append(kinds.Routes, "GatewayClass", "Gateway", "ListenerSet", "BackendTLSPolicy", "BackendPolicy", "XTelemetryPolicy")...))

// withStatus are the permissions for objects that are read, and whose status is written.
func withStatus(of ...string) (all []Permission) {
	for _, kind := range of {
		resource := kinds.ResourceOf(kind)
		all = append(all, Permission{resource.Group, resource.Resource, read}, Permission{resource.Group, resource.Resource + "/status", []string{"update"}})
	}
	return all
}

// LeasePermissions are what leader election needs in the namespace of the lease.
var LeasePermissions = []Permission{
	{"coordination.k8s.io", "leases", []string{"get", "create", "update"}},
}

// IngressPermissions are what the operator needs, besides, to serve Ingresses, and GatewayPermissions in the namespace
// of their Gateways.
var (
	IngressPermissions = append(replacing(ingress.Kinds[2:]...), []Permission{
		{networkingv1.GroupName, "ingresses", read},
		{networkingv1.GroupName, "ingresses/status", []string{"patch"}},
		{networkingv1.GroupName, "ingressclasses", []string{"get", "list", "watch"}},
	}...)
	GatewayPermissions = append(replacing(ingress.Kinds[:2]...), Permission{"", "configmaps", read})
)

// replacing are the permissions for what is made of Ingresses.
func replacing(of ...string) (all []Permission) {
	for _, kind := range of {
		resource := kinds.ResourceOf(kind)
		all = append(all, Permission{resource.Group, resource.Resource, []string{"get", "create", "patch", "delete"}})
	}
	return all
}

// ClusterWatchPermissions are what the operator needs, besides, to let Gateways watch the cluster.
var ClusterWatchPermissions = []Permission{
	{"rbac.authorization.k8s.io", "clusterrolebindings", []string{"get", "list", "watch", "create", "patch", "delete"}},
}

// Options say where the operator is going to work.
type Options struct {
	// Server is the URL of the API server, for messages.
	Server string
	// Namespace is the one to work in; "" is all of them.
	Namespace string
	// LeaseNamespace is where the lease is; "" if there is no leader election.
	LeaseNamespace string
	// IngressNamespace is where the Gateways for Ingresses are; "" if none are served.
	IngressNamespace string
	// ClusterWatch reports whether Gateways may watch the cluster.
	ClusterWatch bool
}

// Await returns why the operator cannot work, nil if it can, once the API server answers or ctx is cancelled. It waits
// instead of ending the process, which kubelet would restart ever more slowly.
func Await(ctx context.Context, kube kubernetes.Interface, gateways clientset.Interface, options Options) error {
	logged := time.Time{}
	var checked error
	_ = wait.PollUntilContextCancel(ctx, serverPoll, true, func(ctx context.Context) (bool, error) {
		checked = Check(ctx, kube, gateways, options)
		absent := errors.As(checked, new(*AbsentError))
		if absent && ctx.Err() == nil && time.Since(logged) > serverLog {
			logging.Errorf("Trying again: %v", checked) // on standard error, too, wherever the log goes
			logged = time.Now()
		}
		return !absent, nil
	})
	if ctx.Err() != nil {
		return nil
	}
	return checked
}

// Check returns why the operator cannot work, nil if it can. The clients must have a timeout for each request. There is
// none for all requests together: they are dozens, and the clients' limit of requests per second decides how long they
// take.
func Check(ctx context.Context, kube kubernetes.Interface, gateways clientset.Interface, options Options) error {
	permissions := Permissions
	if options.Namespace == "" {
		permissions = slices.Concat(permissions, ClusterPermissions)
	}
	missing, err := denied(ctx, kube, options.Namespace, permissions)
	if err == nil && options.LeaseNamespace != "" {
		var more []string
		more, err = denied(ctx, kube, options.LeaseNamespace, LeasePermissions)
		missing = append(missing, more...)
	}
	if err != nil {
		return explain(err, options)
	}
	if len(missing) > 0 {
		return missingError(missing, "artifacts/rbac")
	}
	if options.ClusterWatch {
		missing, err := denied(ctx, kube, metav1.NamespaceAll, ClusterWatchPermissions)
		switch {
		case err != nil:
			return explain(err, options)
		case len(missing) > 0:
			return missingError(missing, "artifacts/cluster-watch")
		}
	}
	if options.IngressNamespace != "" {
		forAll, err := denied(ctx, kube, metav1.NamespaceAll, IngressPermissions)
		var there []string
		if err == nil {
			there, err = denied(ctx, kube, options.IngressNamespace, GatewayPermissions)
		}
		if err != nil {
			return explain(err, options)
		}
		if missing := append(forAll, there...); len(missing) > 0 {
			return missingError(missing, "artifacts/ingress")
		}
	}
	return checkKinds(ctx, gateways, options)
}

// missingError names missing permissions, and the manifests with them.
func missingError(missing []string, manifests string) error {
	if more := len(missing) - maxListed; more > 0 {
		missing = append(missing[:maxListed], fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("missing permissions: %s: apply %s and run as the ServiceAccount in artifacts/rbac, or use a "+
		"kubeconfig of someone who may do all this", strings.Join(missing, ", "), manifests)
}

// checkKinds returns which of our kinds the API server does not know, or why it does not list them.
func checkKinds(ctx context.Context, gateways clientset.Interface, options Options) error {
	api := gateways.AppV1()
	kinds := map[string]error{
		"Gateways":           list(ctx, api.Gateways(options.Namespace)),
		"GatewayAttachments": list(ctx, api.GatewayAttachments(options.Namespace)),
		"GatewayProxies":     list(ctx, api.GatewayProxies(options.Namespace)),
	}
	if options.Namespace == "" {
		kinds["GatewayConfigs"] = list(ctx, api.GatewayConfigs(""))
		kinds["RouteFilters"] = list(ctx, api.RouteFilters(""))
		kinds["BackendPolicies"] = list(ctx, api.BackendPolicies(""))
	}
	var absent []string
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		switch err := kinds[kind]; {
		case apierrors.IsNotFound(err):
			absent = append(absent, kind)
		case err != nil:
			return explain(err, options)
		}
	}
	if len(absent) == 0 {
		return nil
	}
	return fmt.Errorf(`the API server at %s does not know %s: install the CRDs with "make install" or "kubectl apply --server-side -f artifacts/crd"`,
		options.Server, strings.Join(absent, ", "))
}

// list lists an object, and returns only the error.
func list[L any](ctx context.Context, client interface {
	List(context.Context, metav1.ListOptions) (L, error)
}) error {
	_, err := client.List(ctx, metav1.ListOptions{Limit: 1})
	return err
}

// denied returns the permissions that the operator lacks in a namespace, for people to read.
func denied(
	ctx context.Context, kube kubernetes.Interface, namespace string, permissions []Permission,
) ([]string, error) {
	var missing []string
	for _, permission := range permissions {
		var verbs []string
		resource, subresource, _ := strings.Cut(permission.Resource, "/")
		for _, verb := range permission.Verbs {
			review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Namespace: namespace, Verb: verb, Group: permission.Group, Resource: resource, Subresource: subresource,
				},
			}}
			answer, err := kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
			if err != nil {
				return nil, fmt.Errorf("failed to ask whether the operator may %s %s: %w", verb, permission.Resource, err)
			}
			if !answer.Status.Allowed {
				verbs = append(verbs, verb)
			}
		}
		if len(verbs) > 0 {
			missing = append(missing, describe(verbs, permission, namespace))
		}
	}
	return missing, nil
}

func describe(verbs []string, permission Permission, namespace string) string {
	resource, subresource, _ := strings.Cut(permission.Resource, "/")
	if permission.Group != "" {
		resource += "." + permission.Group
	}
	if subresource != "" {
		resource += "/" + subresource
	}
	where := "in all namespaces"
	if namespace != "" {
		where = "in namespace " + namespace
	}
	return fmt.Sprintf("%s %s %s", strings.Join(verbs, "/"), resource, where)
}

// AbsentError means that the API server does not answer, or cannot now: it may be about to start.
type AbsentError struct{ cause error }

func (e *AbsentError) Error() string { return e.cause.Error() }
func (e *AbsentError) Unwrap() error { return e.cause }

// explain turns a client's error into advice.
func explain(err error, options Options) error {
	var network *url.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &network):
		explained := fmt.Errorf("cannot reach the API server at %s (%w): check that it runs, and that -kubeconfig or -master "+
			"means this one", options.Server, network.Err)
		if errors.As(err, new(*tls.CertificateVerificationError)) {
			return explained // it answers, and will not be another one
		}
		return &AbsentError{explained}
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the API server at %s does not know who is asking (%w): check the credentials in the kubeconfig",
			options.Server, err)
	}
	explained := fmt.Errorf("the API server at %s does not work: %w", options.Server, err)
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Code != http.StatusTooManyRequests && status.Status().Code < http.StatusInternalServerError {
		return explained
	}
	return &AbsentError{explained}
}
