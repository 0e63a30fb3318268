package preflight

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"gateway/generated/app/clientset/versioned"
	gatewayfake "gateway/generated/app/clientset/versioned/fake"
	"gateway/internal/must"
)

// newKube returns a fake that allows all but what denied says, or answers with an error.
func newKube(denied func(authorizationv1.ResourceAttributes) bool, err error) *kubefake.Clientset {
	kube := kubefake.NewClientset()
	kube.PrependReactor("create", "selfsubjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview).DeepCopy()
		review.Status.Allowed = !denied(*review.Spec.ResourceAttributes)
		return true, review, err
	})
	return kube
}

func nothing(authorizationv1.ResourceAttributes) bool { return false }

var (
	everywhere = Options{Server: "https://api:6443", LeaseNamespace: "system"}
	within     = Options{Server: "https://api:6443", Namespace: "web"}
	ingresses  = Options{Server: "https://api:6443", IngressNamespace: "edge"}

	refused      = &url.Error{Op: "Post", URL: "https://api:6443/apis", Err: syscall.ECONNREFUSED}
	notInstalled = apierrors.NewNotFound(schema.GroupResource{Resource: "gateways"}, "")
)

// checkTests are keyed by what is the case on the cluster. want is part of the error; "" is no error.
var checkTests = map[string]struct {
	options          Options
	denied           func(authorizationv1.ResourceAttributes) bool
	kubeErr, listErr error
	want             string
}{
	"all is well": {everywhere, nothing, nil, nil, ""},
	"nobody answers": {
		everywhere, nothing, refused, nil,
		"cannot reach the API server at https://api:6443 (connection refused): check that it runs",
	},
	"the credentials are wrong": {
		everywhere, nothing, apierrors.NewUnauthorized("Unauthorized"), nil,
		"the API server at https://api:6443 does not know who is asking",
	},
	"the CRD is missing": {
		everywhere, nothing, nil, notInstalled,
		`the API server at https://api:6443 does not know Gateways: install the CRDs with "make install"`,
	},
	"the API server has trouble": {
		everywhere, nothing, nil, apierrors.NewServiceUnavailable("etcd is down"),
		"the API server at https://api:6443 does not work: etcd is down",
	},
	"a verb is denied": {
		everywhere, func(a authorizationv1.ResourceAttributes) bool {
			return a.Resource == "deployments" && a.Verb == "patch"
		}, nil, nil,
		"missing permissions: patch deployments.apps in all namespaces: apply artifacts/rbac",
	},
	"a subresource is denied": {
		within, func(a authorizationv1.ResourceAttributes) bool { return a.Subresource == "status" }, nil, nil,
		"missing permissions: patch gateways.app.example.com/status in namespace web, patch gatewayproxies.app.example.com/status in namespace web: apply artifacts/rbac",
	},
	"the lease is denied, in its namespace only": {
		everywhere, func(a authorizationv1.ResourceAttributes) bool { return a.Namespace == "system" }, nil, nil,
		"missing permissions: get/create/update leases.coordination.k8s.io in namespace system: apply artifacts/rbac",
	},
	"without leader election it is not needed": {
		within, func(a authorizationv1.ResourceAttributes) bool { return a.Resource == "leases" }, nil, nil, "",
	},
	"Ingresses are denied": {
		ingresses, func(a authorizationv1.ResourceAttributes) bool {
			return a.Resource == "ingresses" && a.Subresource == "status" || a.Resource == "configmaps"
		}, nil, nil,
		"missing permissions: patch ingresses.networking.k8s.io/status in all namespaces, list/watch configmaps in namespace edge: apply artifacts/ingress",
	},
	"without Ingresses they are not needed": {
		everywhere, func(a authorizationv1.ResourceAttributes) bool { return a.Resource == "ingresses" }, nil, nil, "",
	},
	"all is denied": {
		everywhere, func(authorizationv1.ResourceAttributes) bool { return true }, nil, nil,
		"list/watch/create/patch gatewayproxies.app.example.com in all namespaces, and 41 more: apply artifacts/rbac",
	},
}

func TestCheck(t *testing.T) {
	for name, test := range checkTests {
		t.Run(name, func(t *testing.T) {
			gateways := gatewayfake.NewClientset()
			if test.listErr != nil {
				gateways.PrependReactor("list", "gateways", func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, test.listErr
				})
			}
			err := Check(t.Context(), newKube(test.denied, test.kubeErr), gateways, test.options)
			switch {
			case test.want == "" && err != nil:
				t.Errorf("got the error %v, want none", err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("got the error\n  %v\nwant one with\n  %s", err, test.want)
			case err != nil && strings.Contains(err.Error(), "\n"):
				t.Errorf("the error has more than one line: %q", err)
			}
			if absent := errors.As(err, new(*AbsentError)); absent != (errors.Is(test.kubeErr, refused) || apierrors.IsServiceUnavailable(test.listErr)) {
				t.Errorf("%v counts as absence: %t", err, absent)
			}
			if errors.Is(test.kubeErr, refused) && !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("%v does not wrap its cause", err)
			}
		})
	}
}

// TestMissingKindsAreNamed: an operator for one namespace needs none of those for the Gateway API.
func TestMissingKindsAreNamed(t *testing.T) {
	gateways := gatewayfake.NewClientset()
	for _, resource := range []string{"gatewayconfigs", "routefilters"} {
		gateways.PrependReactor("list", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewNotFound(schema.GroupResource{Resource: resource}, "")
		})
	}
	err := Check(t.Context(), newKube(nothing, nil), gateways, everywhere)
	const want = "the API server at https://api:6443 does not know GatewayConfigs, RouteFilters: install the CRDs with"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got the error %v, want %s", err, want)
	}
	if err := Check(t.Context(), newKube(nothing, nil), gateways, within); err != nil {
		t.Errorf("within a namespace, got the error %v", err)
	}
}

// TestOneNamespaceNeedsLess: an operator for one namespace is not asked for permissions that only the Gateway API
// needs.
func TestOneNamespaceNeedsLess(t *testing.T) {
	unused := func(a authorizationv1.ResourceAttributes) bool {
		return a.Resource == "gatewayconfigs" || a.Resource == "gateways" && a.Subresource == "" && a.Verb != "list" && a.Verb != "watch"
	}
	if err := Check(t.Context(), newKube(unused, nil), gatewayfake.NewClientset(), within); err != nil {
		t.Errorf("within a namespace, got the error %v", err)
	}
	if err := Check(t.Context(), newKube(unused, nil), gatewayfake.NewClientset(), everywhere); err == nil {
		t.Error("in all namespaces, got no error")
	}
}

// allowing is an API server that allows everything.
type allowing struct{}

func (allowing) RoundTrip(request *http.Request) (*http.Response, error) {
	answer := `{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","status":{"allowed":true}}`
	if request.Method == http.MethodGet {
		answer = `{"apiVersion":"app.example.com/v1","kind":"GatewayList"}`
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(answer)),
	}, nil
}

// TestCheckTakesItsTime: few requests a second make it slow, but do not keep it from ending.
func TestCheckTakesItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := &rest.Config{Host: everywhere.Server, Transport: allowing{}, Timeout: time.Second, QPS: 0.5, Burst: 1}
		kube := must.Get(kubernetes.NewForConfig(config))(t)
		gateways := must.Get(versioned.NewForConfig(config))(t)
		if err := Check(t.Context(), kube, gateways, everywhere); err != nil {
			t.Errorf("got the error %v, want none", err)
		}
	})
}
