//go:build slow

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	appv1 "gateway/api/app/v1"
	"gateway/internal/certtest"
	"gateway/internal/must"
)

// Others write to the Gateway's children, and what it refers to comes and goes.
func TestFaultsOfObjects(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.run(t, "another writer fights over a field", nil, func(t *testing.T) {
		t.Helper()
		for range 30 {
			s.label(t, "me")
			pause(t, 100*time.Millisecond)
		}
		s.waitRepaired(t)
	})
	s.run(t, "a human edits the Deployment", nil, func(t *testing.T) {
		t.Helper()
		body := `{"spec":{"template":{"spec":{"containers":[{"name":"haproxy","image":"nonsense:none"}]}}}}`
		must.Get(kube.AppsV1().Deployments(s.namespace).Patch(t.Context(), childName, types.StrategicMergePatchType,
			[]byte(body), metav1.PatchOptions{FieldManager: "human"}))(t)
		eventually(t, "the image is put back", func(ctx context.Context) error {
			d, err := kube.AppsV1().Deployments(s.namespace).Get(ctx, childName, metav1.GetOptions{})
			if err == nil && d.Spec.Template.Spec.Containers[0].Image == "nonsense:none" {
				err = fmt.Errorf("it is still what the human wants")
			}
			return err
		})
		waitReplicas(t, s.namespace, childName, 2)
	})
	s.run(t, "Services, EndpointSlices and Secrets flap", nil, s.flap)
}

// flap makes a Service with a route, its EndpointSlice and a Secret come and go in every order, and leaves none of
// them.
func (s *site) flap(t *testing.T) {
	t.Helper()
	authority := certtest.NewAuthority(t)
	address := s.backends(t, "v2")[0].Status.PodIP
	services, endpoints := kube.CoreV1().Services(s.namespace), kube.DiscoveryV1().EndpointSlices(s.namespace)
	setRoutes(t, s.namespace, append(s.routes(), route("flapping", rule("/flap", backend("flapping", 1))))...)
	create := []func(){
		func() {
			must.Get(services.Create(t.Context(), &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Name: "flapping"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
			}, metav1.CreateOptions{}))(t)
		},
		func() { must.Do(t, createSlice(t.Context(), s.namespace, "flapping", address)) },
		func() { putSecret(t, s.namespace, "flapping", authority.Issue(t, []string{host})) },
	}
	remove := []func(context.Context, string, metav1.DeleteOptions) error{
		services.Delete, endpoints.Delete, kube.CoreV1().Secrets(s.namespace).Delete,
	}
	orders := [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}
	for i, order := range orders {
		for _, j := range order {
			create[j]()
		}
		if i%2 == 0 { // the other times it goes before anyone has used it
			s.traffic.waitAnswer(t, host, "/flap", http.StatusOK, "v2")
		}
		for _, j := range orders[len(orders)-1-i] {
			if err := remove[j](t.Context(), "flapping", metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				t.Fatal(err)
			}
		}
	}
	s.traffic.waitAnswer(t, host, "/flap", http.StatusInternalServerError, "")
}

// createSlice makes an EndpointSlice of a Service, of its name, with one address.
func createSlice(ctx context.Context, namespace, service, address string) error {
	_, err := kube.DiscoveryV1().EndpointSlices(namespace).Create(ctx, &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: service, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To(""), Port: ptr.To(int32(8080)), Protocol: ptr.To(corev1.ProtocolTCP)}},
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{address}}},
	}, metav1.CreateOptions{})
	return err
}

// An object that is not ours is under the name of a child: it is left alone, the status says so, and when it goes all
// is well.
func TestFaultOfForeignObjects(t *testing.T) {
	t.Parallel()
	needNode(t)
	namespace := newNamespace(t)
	newBackend(t, namespace, "v1", 1)
	foreign := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: childName, Annotations: map[string]string{"owner": "someone else"}},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 4711}}},
	}
	must.Get(kube.CoreV1().Services(namespace).Create(t.Context(), foreign, metav1.CreateOptions{}))(t)
	waitReplicas(t, namespace, "v1", 1)
	must.Get(gateways.AppV1().Gateways(namespace).Create(t.Context(), newGateway(route("web", rule("/", backend("v1", 1)))), metav1.CreateOptions{}))(t)
	s := &site{namespace: namespace}
	s.waitCondition(t, "Programmed", metav1.ConditionFalse, childName)
	// Its pod runs. It is not ready, as it is no endpoint of the Gateway's Service.
	eventually(t, "a proxy pod", func(ctx context.Context) error {
		deployment, err := kube.AppsV1().Deployments(namespace).Get(ctx, childName, metav1.GetOptions{})
		if err == nil && deployment.Status.Replicas != 1 {
			err = fmt.Errorf("status %+v", deployment.Status)
		}
		return err
	})
	service := must.Get(kube.CoreV1().Services(namespace).Get(t.Context(), childName, metav1.GetOptions{}))(t)
	if service.Annotations["owner"] != "someone else" || service.Spec.Ports[0].Port != 4711 || len(service.OwnerReferences) > 0 {
		t.Errorf("the operator changed what is not its own: %+v", service)
	}
	must.Do(t, kube.CoreV1().Services(namespace).Delete(t.Context(), childName, metav1.DeleteOptions{}))
	begin := time.Now()
	waitProgrammed(t, namespace)
	expectWithin(t, "fault: foreign Service under our name, gone to Programmed", begin, recoveryTime)
	newClient(t, namespace).waitAnswer(t, host, "/", http.StatusOK, "v1")
}

// A namespace goes while its Gateway is being edited: everything goes, and the operator does not go on trying.
func TestFaultOfANamespaceThatGoes(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(gateway *appv1.Gateway) { gateway.Spec.DrainTimeout = "1s" })
	begin := metav1.Now()
	must.Do(t, kube.CoreV1().Namespaces().Delete(t.Context(), s.namespace, metav1.DeleteOptions{}))
	edits := 0
	waitLonger(t, "the namespace is gone", 2*soon, func(ctx context.Context) error {
		s.edits++
		body, err := json.Marshal(map[string]any{"spec": map[string]any{"routes": s.routes()}})
		must.Do(t, err)
		if _, err = gateways.AppV1().Gateways(s.namespace).Patch(ctx, gatewayName, types.MergePatchType, body, metav1.PatchOptions{}); err == nil {
			edits++
		}
		_, err = kube.CoreV1().Namespaces().Get(ctx, s.namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is still there (%w)", err)
	})
	expectWithin(t, "fault: namespace deleted under edits to gone", begin.Time, 2*soon)
	gone := metav1.Now()
	pause(t, 3*time.Second)
	if lines := operatorLog(t, s.namespace, gone.Add(time.Second)); len(lines) > 0 {
		t.Errorf("the operator still logs about a namespace that is gone: %q", lines)
	}
	if lines := operatorLog(t, s.namespace, begin.Time); len(lines) > 20 {
		t.Errorf("the operator logged %d errors (%d edits) about a namespace that goes: %q", len(lines), edits, lines[:5])
	}
}
