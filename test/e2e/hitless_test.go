package e2e

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	appv1 "gateway/api/app/v1"
	"gateway/internal/certtest"
	"gateway/internal/must"
	"gateway/internal/testtier"
	"gateway/test/internal/load"
)

// hitlessDrain is the drainTimeout of the Gateways under load: short, so that what happens after it is seen too.
const hitlessDrain = 10 * time.Second

// TestHitless: no planned change of routes, certificates or backends costs a request. During each, a steady load of all
// kinds of requests gets the answers that the configuration before or after the change asks for, and nothing else.
func TestHitless(t *testing.T) {
	needNode(t)
	t.Parallel()
	h := newHitless(t)
	h.during(t, "route edits", noEnd, h.editRoutes)
	h.during(t, "new Services", noEnd, func(t *testing.T) { t.Helper(); h.addServices(t, nil) })
	h.during(t, "listener renames", h.afterDrain(), h.changeListeners)
	h.during(t, "certificate renewals", h.afterDrain(), h.renewCertificates)
	h.during(t, "backend rollouts", inOrder, h.rollOutBackend)
	if testtier.All {
		h.during(t, "weight edits", noEnd, h.editWeights)
		h.during(t, "new Services with retries (reloads)", h.afterDrain(), func(t *testing.T) { t.Helper(); h.addServices(t, &appv1.RouteRetry{}) })
		h.during(t, "backend scaled 1 to 20 to 1", inOrder, h.scaleBackend)
	}
}

// TestHitlessProxies: the same for what happens to the proxies themselves.
func TestHitlessProxies(t *testing.T) {
	needNode(t)
	t.Parallel()
	h := newHitless(t)
	h.during(t, "agents killed", h.afterDrain(), h.killAgents)
	h.during(t, "proxy rollouts (resources)", h.afterDrain(), h.rollOutProxies)
	if testtier.All {
		h.during(t, "proxies scaled 2 to 4 to 2", h.afterDrain(), h.scaleProxies)
		h.during(t, "proxies evicted", h.afterDrain(), h.evictProxies)
	}
	t.Run("long-lived connections are ended after drainTimeout", h.drains)
}

// hitless is a Gateway with two proxies under load.
type hitless struct {
	namespace string
	authority *certtest.Authority
	options   load.Options
	answers   *answers
}

func newHitless(t *testing.T) *hitless {
	t.Helper()
	h := &hitless{namespace: newNamespace(t), authority: certtest.NewAuthority(t), answers: &answers{retired: map[string]time.Time{}}}
	newBackend(t, h.namespace, "v1", 2)
	newBackend(t, h.namespace, "v2", 2)
	h.newService(t, "v1-grpc", "v1", ptr.To("kubernetes.io/h2c"))
	putSecret(t, h.namespace, "web-tls", h.authority.Issue(t, []string{host}))
	waitReplicas(t, h.namespace, "v1", 2)
	waitReplicas(t, h.namespace, "v2", 2)
	gateway := newGateway(h.routes(backend("v1", 1))...)
	gateway.Spec.Replicas = ptr.To(int32(2))
	gateway.Spec.DrainTimeout = appv1.Duration(hitlessDrain.String())
	gateway.Spec.Listeners = append(gateway.Spec.Listeners, httpsListener("https", host, "web-tls"))
	create(t, h.namespace, gateway)
	waitReplicas(t, h.namespace, childName, 2)
	h.answers.allow("v1")
	h.options = load.Options{
		Address: findPort(t, h.namespace, 80), TLSAddress: findPort(t, h.namespace, 443), Host: host,
		TLS:  &tls.Config{RootCAs: h.authority.Pool(), ServerName: host},
		Rate: 300, Slow: 5, WebSockets: 4, Streams: 4,
		Delay: 3 * time.Second, Timeout: 10 * time.Second, Interval: 500 * time.Millisecond,
		Check: h.answers.check,
	}
	newClient(t, h.namespace).waitAnswer(t, host, "/", http.StatusOK, "v1")
	return h
}

// newService selects the pods of an app.
func (h *hitless) newService(t *testing.T, name, app string, protocol *string) {
	t.Helper()
	must.Get(kube.CoreV1().Services(h.namespace).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": app},
			Ports:    []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080), AppProtocol: protocol}},
		},
	}, metav1.CreateOptions{}))(t)
}

// routes sends requests to the backends, and gRPC to v1. Both versions are always in use, so that no edit of these
// routes needs a reload.
func (h *hitless) routes(backends ...appv1.BackendRef) []appv1.Route {
	return []appv1.Route{route("web", rule("/", backends...), rule("/echo.Echo", backend("v1-grpc", 1)),
		rule("/both", backend("v1", 1), backend("v2", 1)))}
}

// during sends the load while do changes something, and fails the test for every request that was not answered as it
// has to be. ended says which ends of WebSockets and streams are in order.
func (h *hitless) during(t *testing.T, change string, ended func(load.End) error, do func(*testing.T)) {
	t.Helper()
	t.Run(change, func(t *testing.T) {
		options := h.options
		options.Ended = ended
		sent := load.Start(context.WithoutCancel(t.Context()), options)
		// Also when do ends the test. The last answers on connections that a reload met come until the load has stopped.
		defer func() {
			report(t, change, sent.Stop())
			h.answers.reloads(false)
		}()
		h.waitTalking(t, sent)
		do(t)
	})
}

// waitTalking waits until all WebSockets and streams are open, so that the change meets them.
func (h *hitless) waitTalking(t *testing.T, sent *load.Load) {
	t.Helper()
	eventually(t, "all WebSockets and streams are open", func(context.Context) error {
		if n := sent.Talking(); n != h.options.WebSockets+h.options.Streams {
			return fmt.Errorf("%d are", n)
		}
		return nil
	})
}

func report(t *testing.T, change string, result *load.Result) {
	t.Helper()
	all, lost := result.All(), result.Failures()
	record("load during "+change, fmt.Sprintf("%d requests, %.0f/s, %d lost, p99 %s, longest %s", result.Requests(), result.Rate(),
		len(lost), all.Quantile(0.99).Round(time.Millisecond), all.Quantile(1).Round(time.Millisecond)))
	t.Logf("%s", result)
	for kind, stats := range result.Kinds {
		if stats.Requests() == 0 {
			t.Errorf("no requests of kind %s were sent", kind)
		}
	}
	for _, failure := range lost[:min(10, len(lost))] {
		t.Error(failure)
	}
	if len(lost) > 10 {
		t.Errorf("and %d more", len(lost)-10)
	}
}

// noEnd: nothing ends WebSockets and streams.
func noEnd(load.End) error { return errors.New("nothing should have ended it") }

// inOrder: a backend may end them, in order.
func inOrder(end load.End) error {
	if !end.Orderly {
		return errors.New("not in order")
	}
	return nil
}

// afterDrain: they end drainTimeout from now at the earliest, and in order.
func (h *hitless) afterDrain() func(load.End) error {
	begin := time.Now()
	return func(end load.End) error {
		if end.At.Sub(begin) < hitlessDrain {
			return errors.New("before drainTimeout was over")
		}
		return inOrder(end)
	}
}

// someRequests lets the load go on for a moment, so that it meets the state between two changes too.
func (h *hitless) someRequests(t *testing.T) {
	t.Helper()
	select {
	case <-t.Context().Done():
	case <-time.After(100 * time.Millisecond):
	}
}

// answers are the versions that may answer.
type answers struct {
	mutex sync.Mutex
	// retired is since when requests may not be answered by the version any more; zero: they may.
	retired map[string]time.Time
	// reloaded reports whether the changes take new HAProxy processes. One before them gives each connection that it has a
	// last answer, by the configuration it knows.
	reloaded bool
}

// allow lets the versions answer from now on.
func (a *answers) allow(versions ...string) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	for _, version := range versions {
		a.retired[version] = time.Time{}
	}
}

// retire says that requests which are sent from now on are not answered by the version.
func (a *answers) retire(version string) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.retired[version] = time.Now()
}

func (a *answers) reloads(yes bool) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.reloaded = yes
}

func (a *answers) check(answer load.Answer) error {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	retired, known := a.retired[answer.Version]
	switch {
	case answer.Status != http.StatusOK:
		return fmt.Errorf("answered %d: %.200s", answer.Status, answer.Body)
	case !known:
		return fmt.Errorf("answered by %q", answer.Version)
	case a.reloaded && answer.Last && answer.Opened.Before(retired):
		return nil
	case !retired.IsZero() && answer.Sent.After(retired):
		return fmt.Errorf("answered by %s, which no ready proxy should have sent it to since %s", answer.Version, retired.Format("15:04:05.000"))
	}
	return nil
}

// patch changes the Gateway's spec and returns its generation.
func (h *hitless) patch(t *testing.T, spec map[string]any) int64 {
	t.Helper()
	body := must.Get(json.Marshal(map[string]any{"spec": spec}))(t)
	gateway := must.Get(gateways.AppV1().Gateways(h.namespace).Patch(t.Context(), gatewayName, types.MergePatchType, body, metav1.PatchOptions{}))(t)
	return gateway.Generation
}

// drains reloads HAProxy and sees WebSockets and streams go on until drainTimeout, and none for much longer.
func (h *hitless) drains(t *testing.T) {
	t.Helper()
	options := h.options
	options.Ended = h.afterDrain()
	sent := load.Start(context.WithoutCancel(t.Context()), options)
	h.waitTalking(t, sent)
	h.newService(t, "drained", "v2", nil)
	begin := time.Now()
	reloading := rule("/drained", backend("drained", 1))
	reloading.Retry = &appv1.RouteRetry{}
	setRoutes(t, h.namespace, append(h.routes(backend("v1", 1)), route("drained", reloading))...)
	waitProgrammed(t, h.namespace)
	time.Sleep(hitlessDrain + 5*time.Second)
	result := sent.Stop()
	report(t, "the end of old HAProxy processes", result)
	ended := map[load.Kind]int{}
	for _, end := range result.Ends {
		// These connections were opened before the reload; the others are at the new process.
		if end.Opened.Before(begin) {
			ended[end.Kind]++
		}
	}
	for kind, n := range map[load.Kind]int{load.WebSocket: h.options.WebSockets, load.GRPC: h.options.Streams} {
		if ended[kind] != n {
			t.Errorf("%d of %d of kind %s have ended %s after the reload", ended[kind], n, kind, hitlessDrain+5*time.Second)
		}
	}
}
