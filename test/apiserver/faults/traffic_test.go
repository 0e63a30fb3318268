package faults

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"gateway/internal/must"
	"gateway/test/internal/testenv"
)

func createService(t *testing.T, namespace, name string) {
	t.Helper()
	must.Get(server.Kube.CoreV1().Services(namespace).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{}))(t)
}

// answering starts a server that gives the answer, and returns its port.
func answering(t *testing.T, answer string) int32 {
	t.Helper()
	return serving(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) })
}

// serving starts a server on an interface of this machine, as the API server admits no loopback address, and returns
// its port.
func serving(t *testing.T, handler http.HandlerFunc) int32 {
	t.Helper()
	listener := must.Get(net.Listen("tcp", net.JoinHostPort(testenv.OwnAddress(t), "0")))(t)
	backend := &http.Server{Handler: handler}
	go func() { _ = backend.Serve(listener) }() // until it is closed
	t.Cleanup(func() { _ = backend.Close() })
	return int32(listener.Addr().(*net.TCPAddr).Port)
}

// putEndpoint makes the port of this machine the only endpoint of the Service.
func putEndpoint(t *testing.T, namespace, service string, port int32) {
	t.Helper()
	client, slice := server.Kube.DiscoveryV1().EndpointSlices(namespace), endpointSlice(t, service, service+"-1", port)
	_, err := client.Update(t.Context(), slice, metav1.UpdateOptions{})
	if err != nil {
		_, err = client.Create(t.Context(), slice, metav1.CreateOptions{})
	}
	must.Do(t, err)
}

func endpointSlice(t *testing.T, service, name string, port int32) *discoveryv1.EndpointSlice {
	t.Helper()
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To(""), Port: ptr.To(port)}},
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{testenv.OwnAddress(t)}}},
	}
}

// once makes a connection for each request, so that none keeps an old worker alive.
var once = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// ask sends one request to HAProxy and returns the status and the body.
func ask(ctx context.Context, client *http.Client, port int32, path string) (int, string, error) {
	return testenv.Get(ctx, client, fmt.Sprintf("http://127.0.0.1:%d%s", port, path))
}

// expectAnswer waits until HAProxy gives the answer.
func (p *dataPlane) expectAnswer(t *testing.T, within time.Duration, path, want string) {
	t.Helper()
	testenv.Eventually(t, within, fmt.Sprintf("%s answers %q", path, want), func(ctx context.Context) error {
		code, body, err := ask(ctx, once, p.port, path)
		if err == nil && body != want {
			err = fmt.Errorf("it is %d %q", code, body)
		}
		return err
	})
}

// traffic sends requests to "/" until the returned function is called, which fails the test if one of them did not get
// the answer of Service "api". Every other one is over a connection of its own.
func (p *dataPlane) traffic(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	kept := &http.Client{Transport: &http.Transport{}}
	sent, failed := 0, []string(nil)
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for ; ; sent++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			// Not ctx: the last request gets its answer.
			code, body, err := ask(context.Background(), []*http.Client{kept, once}[sent%2], p.port, "/")
			if err != nil || code != http.StatusOK || body != "api" {
				failed = append(failed, fmt.Sprintf("%s: %d %q %v", time.Now().Format("05.000"), code, body, err))
			}
		}
	})
	stop = sync.OnceFunc(func() {
		t.Helper()
		cancel()
		running.Wait()
		kept.CloseIdleConnections()
		if len(failed) > 0 || sent == 0 {
			t.Errorf("%d of %d requests failed:\n%s", len(failed), sent, strings.Join(failed[:min(len(failed), 10)], "\n"))
		}
		t.Logf("%d requests, %d failed", sent, len(failed))
	})
	t.Cleanup(stop)
	return stop
}

// gauges are the values of metrics without labels.
func gauges(ctx context.Context, address string, names ...string) (map[string]float64, error) {
	body, err := testenv.Ask(ctx, address, "/metrics")
	values := map[string]float64{}
	for line := range strings.Lines(body) {
		var value float64
		if metric, rest, _ := strings.Cut(line, " "); slices.Contains(names, metric) {
			if _, err := fmt.Sscan(rest, &value); err != nil {
				return nil, err
			}
			values[metric] = value
		}
	}
	if err == nil && len(values) != len(names) {
		err = fmt.Errorf("only %v of the metrics %v", values, names)
	}
	return values, err
}

// leaks are what a program must not have more and more of.
var leaks = []string{"go_goroutines", "process_open_fds"}

// watchLeaks notes what the program at the address uses, and returns what waits until it uses no more than that and a
// little.
func watchLeaks(t *testing.T, address string) (check func()) {
	t.Helper()
	before := must.Get(gauges(t.Context(), address, leaks...))(t)
	return func() {
		t.Helper()
		// Connections to the API server may come and go.
		const some = 12
		testenv.Eventually(t, soon, "nothing is leaked", func(ctx context.Context) error {
			after, err := gauges(ctx, address, leaks...)
			for metric, value := range after {
				if value > before[metric]+some {
					err = fmt.Errorf("%s was %v and is %v", metric, before[metric], value)
				}
			}
			return err
		})
	}
}
