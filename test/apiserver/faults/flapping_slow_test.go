//go:build slow

package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1 "k8s.io/api/core/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/must"
	"gateway/internal/testtier"
	"gateway/test/internal/testenv"
)

const (
	flappingServices  = 8
	slicesPerService  = 3
	flappingEndpoints = 6
	flaps             = 400
)

// flapping is the state that a test has brought Services and EndpointSlices into.
type flapping struct {
	random *rand.Rand
	// ports are the ports of the endpoints: each answers its own.
	ports []int32
	// service is the port of each Service, 0 if it does not exist.
	service [flappingServices]int32
	// slices are the EndpointSlices of each Service.
	slices [flappingServices][slicesPerService]flappingSlice
}

type flappingSlice struct {
	exists, ready bool
	port          int32
}

// TestFlapping: Services and EndpointSlices come, change and go in any order, as fast as the API server takes it. What
// is left in the end is what HAProxy serves; a Service that is not touched is served all the time.
func TestFlapping(t *testing.T) {
	t.Parallel()
	s := &stack{namespace: "flapping"}
	f := &flapping{random: testtier.Rand(t)}
	ensureNamespace(t, s.namespace)
	createService(t, s.namespace, "api")
	putEndpoint(t, s.namespace, "api", answering(t, "api"))
	spec := routes(haproxytest.FreePort(t), "/unused")
	for i := range flappingServices {
		spec.Routes[0].Rules = append(spec.Routes[0].Rules, appv1.RouteRule{
			Matches:     []appv1.RouteMatch{{Path: appv1.PathMatch{Type: appv1.PathMatchPathPrefix, Value: fmt.Sprintf("/%d", i)}}},
			BackendRefs: []appv1.BackendRef{{Name: serviceName(i), Port: 80}},
		})
	}
	for i := range flappingEndpoints {
		f.ports = append(f.ports, answering(t, fmt.Sprint(i)))
	}
	createGateway(t, s.namespace, spec)
	s.pod = startPod(t, s, "")
	stopTraffic := s.pod.traffic(t)
	defer func() {
		if t.Failed() {
			t.Logf("HAProxy has the servers\n%s", s.pod.haproxy.Worker("show servers state"))
		}
	}()
	begun := time.Now()
	for range flaps {
		f.flap(t, s.namespace)
	}
	ended := time.Now()
	for i := range flappingServices {
		code, answers := f.want(i)
		testenv.Eventually(t, promised, serviceName(i), func(ctx context.Context) error { return s.pod.serves(ctx, fmt.Sprintf("/%d", i), code, answers) })
	}
	t.Logf("%d changes in %v, right %v later", flaps, ended.Sub(begun).Round(time.Millisecond), time.Since(ended).Round(time.Millisecond))
	stopTraffic()
}

func serviceName(i int) string { return fmt.Sprintf("s%d", i) }

// flap makes one change.
func (f *flapping) flap(t *testing.T, namespace string) {
	t.Helper()
	i := f.random.IntN(flappingServices)
	if f.random.IntN(4) == 0 {
		f.flapService(t, namespace, i)
		return
	}
	f.flapSlice(t, namespace, i, f.random.IntN(slicesPerService))
}

func (f *flapping) flapService(t *testing.T, namespace string, i int) {
	t.Helper()
	services := server.Kube.CoreV1().Services(namespace)
	if f.service[i] != 0 && f.random.IntN(2) == 0 {
		f.service[i] = 0
		must.Do(t, services.Delete(t.Context(), serviceName(i), metav1.DeleteOptions{}))
		return
	}
	exists := f.service[i] != 0
	f.service[i] = []int32{80, 80, 81}[f.random.IntN(3)]
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: serviceName(i)},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: f.service[i]}}},
	}
	var err error
	if exists {
		_, err = services.Update(t.Context(), service, metav1.UpdateOptions{})
	} else {
		_, err = services.Create(t.Context(), service, metav1.CreateOptions{})
	}
	must.Do(t, err)
}

func (f *flapping) flapSlice(t *testing.T, namespace string, i, j int) {
	t.Helper()
	slice := &f.slices[i][j]
	name := fmt.Sprintf("%s-%d", serviceName(i), j)
	client := server.Kube.DiscoveryV1().EndpointSlices(namespace)
	if slice.exists && f.random.IntN(3) == 0 {
		slice.exists = false
		must.Do(t, client.Delete(t.Context(), name, metav1.DeleteOptions{}))
		return
	}
	slice.ready, slice.port = f.random.IntN(4) != 0, f.ports[f.random.IntN(len(f.ports))]
	object := endpointSlice(t, serviceName(i), name, slice.port)
	object.Endpoints[0].Conditions = discoveryv1.EndpointConditions{Ready: &slice.ready, Serving: &slice.ready, Terminating: ptr.To(false)}
	_, err := client.Update(t.Context(), object, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = client.Create(t.Context(), object, metav1.CreateOptions{})
	}
	slice.exists = true
	must.Do(t, err)
}

// want is what requests to a Service are to be answered: the status, and by which endpoints.
func (f *flapping) want(i int) (code int, answers []string) {
	if f.service[i] != 80 {
		return http.StatusInternalServerError, nil
	}
	for _, slice := range f.slices[i] {
		if slice.exists && slice.ready {
			answers = append(answers, fmt.Sprint(slices.Index(f.ports, slice.port)))
		}
	}
	if len(answers) == 0 {
		return http.StatusServiceUnavailable, nil
	}
	slices.Sort(answers)
	return http.StatusOK, slices.Compact(answers)
}

// serves is nil if requests to the path are answered as wanted, by all of the endpoints and by no other.
func (p *dataPlane) serves(ctx context.Context, path string, wantCode int, want []string) error {
	var got []string
	for range 3 * slicesPerService {
		code, body, err := ask(ctx, once, p.port, path)
		if err != nil {
			return err
		}
		if code != wantCode {
			return fmt.Errorf("it is %d %q, want %d", code, body, wantCode)
		}
		if code == http.StatusOK {
			got = append(got, body)
		}
	}
	slices.Sort(got)
	if got = slices.Compact(got); !slices.Equal(got, want) {
		return fmt.Errorf("the endpoints %q answer, want %q", got, want)
	}
	return nil
}
