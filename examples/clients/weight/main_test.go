package main

import (
	"errors"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	appv1 "gateway/api/app/v1"
	"gateway/generated/app/clientset/versioned/fake"
)

// newClient returns a fake clientset with a Gateway that has a rule for v1 alone, and one for v1 and v2.
func newClient() *fake.Clientset {
	v1, v2 := appv1.BackendRef{Name: "shop-v1", Port: 80}, appv1.BackendRef{Name: "shop-v2", Port: 80}
	return fake.NewClientset(&appv1.Gateway{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "shop"},
		Spec: appv1.GatewaySpec{Routes: []appv1.Route{{Name: "shop", Rules: []appv1.RouteRule{
			{BackendRefs: []appv1.BackendRef{v1}}, {BackendRefs: []appv1.BackendRef{v1, v2}},
		}}}},
	})
}

// verbs are those of the requests so far.
func verbs(client *fake.Clientset) []string {
	var verbs []string
	for _, action := range client.Actions() {
		verbs = append(verbs, action.GetVerb())
	}
	return verbs
}

// TestSetWeight looks at what is stored afterwards, and which requests that took.
func TestSetWeight(t *testing.T) {
	client := newClient()
	for _, test := range []struct {
		service string
		changed int
		verbs   []string
	}{
		{"shop-v1", 2, []string{"get", "update"}},
		{"shop-v1", 0, []string{"get"}}, // it is so already
		{"shop-v3", 0, []string{"get"}},
	} {
		client.ClearActions()
		changed, err := setWeight(t.Context(), client, "default", "shop", test.service, 7)
		if err != nil || changed != test.changed || !slices.Equal(verbs(client), test.verbs) {
			t.Errorf("%s: %d changed, %v, by %v; want %d by %v", test.service, changed, err, verbs(client), test.changed, test.verbs)
		}
	}
	gateway, err := client.AppV1().Gateways("default").Get(t.Context(), "shop", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	refs := gateway.Spec.Routes[0].Rules[1].BackendRefs
	if refs[0].Weight == nil || *refs[0].Weight != 7 || refs[1].Weight != nil {
		t.Errorf("the weights are wrong: %+v", refs)
	}
}

// TestConflict has a reactor come before the fake's own, and answer once as the API server does if somebody else was
// quicker.
func TestConflict(t *testing.T) {
	client := newClient()
	conflicts := 0
	client.PrependReactor("update", "gateways", func(clienttesting.Action) (handled bool, _ runtime.Object, err error) {
		if conflicts++; conflicts == 1 {
			return true, nil, apierrors.NewConflict(appv1.Resource("gateways"), "shop", errors.New("the object has been modified"))
		}
		return false, nil, nil // to the next reactor: the object tracker
	})
	changed, err := setWeight(t.Context(), client, "default", "shop", "shop-v2", 7)
	if want := []string{"get", "update", "get", "update"}; err != nil || changed != 1 || !slices.Equal(verbs(client), want) {
		t.Errorf("%d changed, %v, by %v; want 1 by %v", changed, err, verbs(client), want)
	}
}

func TestNoGateway(t *testing.T) {
	_, err := setWeight(t.Context(), newClient(), "default", "other", "shop-v1", 7)
	if !apierrors.IsNotFound(err) {
		t.Errorf("the error is %v", err)
	}
}
