//go:build slow

package faults

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	routesclient "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"

	appv1 "gateway/api/app/v1"
	"gateway/internal/must"
	"gateway/test/internal/faultproxy"
	"gateway/test/internal/testenv"
)

// TestFrozenLeaderOfRoutes is TestFrozenLeader for a leader that looks after the Gateway API. It attaches a namespace,
// and a write for that is on its way while the next leader attaches the namespace, and detaches it again. The operators
// work in all namespaces, so this test runs before those that run in parallel.
func TestFrozenLeaderOfRoutes(t *testing.T) {
	tests := map[string]struct {
		held string
		want int
	}{
		"status":      {"/gateways/" + name + "/status?fieldManager=gateway-operator-gatewayapi", http.StatusConflict},
		"rolebinding": {"/rolebindings/", http.StatusConflict},
		// The RoleBinding is gone by then. Nothing refuses to create it again, but it has no subject.
		"late": {"/rolebindings/", http.StatusCreated},
	}
	server.InstallGatewayAPI(t)
	for what, test := range tests {
		t.Run(what, func(t *testing.T) {
			s := newRoutesSite(t, "frozen-"+what)
			oldProxy := faultproxy.Start(t, server.Admin)
			oldLeader := startOperator(t, oldProxy, s.namespace, "-namespace=")
			testenv.Eventually(t, soon, "the first leads", oldLeader.leads)
			s.expectAttached(t, s.namespace)
			newLeader := startOperator(t, faultproxy.Start(t, server.Admin), s.namespace, "-namespace=")

			hold, arrived, release := faultproxy.Hold(func(r *http.Request) bool {
				return r.Method == http.MethodPatch && strings.Contains(r.URL.Path+"?"+r.URL.RawQuery, test.held)
			})
			oldProxy.Set(hold)
			s.createRoute(t)
			select {
			case <-arrived:
			case <-time.After(soon):
				t.Fatalf("the leader does not write %s", test.held)
			}
			oldLeader.Signal(t, syscall.SIGSTOP)
			testenv.Eventually(t, 30*time.Second, "the second leads", newLeader.leads)
			s.expectAttached(t, s.namespace, s.team)
			if what != "rolebinding" {
				must.Do(t, s.api.GatewayV1().HTTPRoutes(s.team).Delete(t.Context(), "api", metav1.DeleteOptions{}))
				s.expectAttached(t, s.namespace)
				s.expectNoBinding(t)
			}
			granted := s.watchSubjects(t)
			if code := release(); code != test.want {
				t.Errorf("the write that came late was answered %d, want %d", code, test.want)
			}
			woken := time.Now()
			oldLeader.Signal(t, syscall.SIGCONT)
			if code := oldLeader.Exit(t, soon); code == 0 {
				t.Error("the old leader ended as if all was well")
			}
			expectNoWrites(t, oldProxy.Requests(woken))
			if what == "rolebinding" {
				s.expectAttached(t, s.namespace, s.team)
			} else {
				s.expectAttached(t, s.namespace)
				s.expectNoBinding(t)
			}
			if subjects := granted(); len(subjects) > 0 {
				t.Errorf("the late write, or the old leader, granted something to %v", subjects)
			}
		})
	}
}

// expectNoWrites: a leader that woke up changed nothing. It may delete the RoleBinding that has just been created: that
// is right by then.
func expectNoWrites(t *testing.T, requests []faultproxy.Request) {
	t.Helper()
	for _, request := range requests {
		changed := request.Code < http.StatusBadRequest && request.Method != http.MethodDelete
		if request.Write && !strings.Contains(request.Path, "/events") && changed {
			t.Errorf("woken up, it wrote %s, answered %d", request.Path, request.Code)
		}
	}
}

// routesSite is a Gateway of the Gateway API that takes routes from all namespaces, and the namespace of a team.
type routesSite struct {
	api             routesclient.Interface
	namespace, team string
}

func newRoutesSite(t *testing.T, namespace string) *routesSite {
	t.Helper()
	api, err := routesclient.NewForConfig(server.Admin)
	must.Do(t, err)
	s := &routesSite{api, namespace, namespace + "-team"}
	ensureNamespace(t, s.namespace)
	ensureNamespace(t, s.team)
	class := &gatewayv1.GatewayClass{ObjectMeta: metav1.ObjectMeta{Name: "app"}}
	class.Spec.ControllerName = "app.example.com/gateway"
	_, err = api.GatewayV1().GatewayClasses().Create(t.Context(), class, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		must.Do(t, err)
	}
	all := gatewayv1.NamespacesFromAll
	must.Get(api.GatewayV1().Gateways(s.namespace).Create(t.Context(), &gatewayv1.Gateway{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: gatewayv1.GatewaySpec{GatewayClassName: "app", Listeners: []gatewayv1.Listener{{
			Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType,
			AllowedRoutes: &gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{From: &all}},
		}}},
	}, metav1.CreateOptions{}))(t)
	t.Cleanup(func() { // nobody is to find it again
		ctx := context.WithoutCancel(t.Context())
		must.Do(t, api.GatewayV1().Gateways(s.namespace).Delete(ctx, name, metav1.DeleteOptions{}))
		must.Do(t, server.App.AppV1().Gateways(s.namespace).Delete(ctx, name, metav1.DeleteOptions{}))
	})
	return s
}

func (s *routesSite) createRoute(t *testing.T) {
	t.Helper()
	must.Get(s.api.GatewayV1().HTTPRoutes(s.team).Create(t.Context(), &gatewayv1.HTTPRoute{
		ObjectMeta: metav1.ObjectMeta{Name: "api"},
		Spec: gatewayv1.HTTPRouteSpec{CommonRouteSpec: gatewayv1.CommonRouteSpec{ParentRefs: []gatewayv1.ParentReference{{
			Namespace: ptr.To(gatewayv1.Namespace(s.namespace)), Name: name,
		}}}},
	}, metav1.CreateOptions{}))(t)
}

// expectAttached waits until the agents know of these namespaces, and of no others.
func (s *routesSite) expectAttached(t *testing.T, want ...string) {
	t.Helper()
	testenv.Eventually(t, soon, fmt.Sprintf("the agents are told of %v", want), func(ctx context.Context) error {
		list, err := server.App.AppV1().GatewayAttachments(s.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		var got []string
		for i := range list.Items {
			if attachment := &list.Items[i]; meta.IsStatusConditionTrue(attachment.Status.Conditions, appv1.ConditionBound) {
				got = append(got, attachment.Spec.Namespace)
			}
		}
		slices.Sort(got)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("they are told of %v", got)
		}
		return nil
	})
}

// watchSubjects returns what returns the subjects that RoleBindings of the team's namespace got after it was called.
func (s *routesSite) watchSubjects(t *testing.T) func() []rbacv1.Subject {
	t.Helper()
	before := must.Get(server.Kube.RbacV1().RoleBindings(s.team).List(t.Context(), metav1.ListOptions{}))(t)
	options := metav1.ListOptions{ResourceVersion: before.ResourceVersion}
	watching := must.Get(server.Kube.RbacV1().RoleBindings(s.team).Watch(t.Context(), options))(t)
	return func() []rbacv1.Subject {
		// When this object is seen, everything that happened before it is made has been seen.
		last := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "last"}}
		last.RoleRef = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "none"}
		must.Get(server.Kube.RbacV1().RoleBindings(s.team).Create(t.Context(), last, metav1.CreateOptions{}))(t)
		var subjects []rbacv1.Subject
		for event := range watching.ResultChan() {
			binding := event.Object.(*rbacv1.RoleBinding)
			if binding.Name == last.Name {
				break
			}
			if event.Type != watch.Deleted {
				subjects = append(subjects, binding.Subjects...)
			}
		}
		watching.Stop()
		return subjects
	}
}

// expectNoBinding waits until the agents have no permission in the namespace of the team.
func (s *routesSite) expectNoBinding(t *testing.T) {
	t.Helper()
	testenv.Eventually(t, soon, "the RoleBinding is deleted", func(ctx context.Context) error {
		bindings, err := server.Kube.RbacV1().RoleBindings(s.team).List(ctx, metav1.ListOptions{})
		if err == nil && len(bindings.Items) > 0 {
			err = fmt.Errorf("there is %s for %v", bindings.Items[0].Name, bindings.Items[0].Subjects)
		}
		return err
	})
}
