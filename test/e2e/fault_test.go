package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appv1 "gateway/api/app/v1"
	"gateway/internal/must"
)

// recoveryTime is how soon after a fault is over an edit has to be live and told in the status, on top of what that
// takes without a fault: a busy machine is none.
const recoveryTime = 5 * time.Second

// site is a Gateway of two proxies, in a namespace of its own, that faults happen to.
type site struct {
	namespace string
	traffic   *client
	edits     int
}

// newSite makes a Gateway that sends / to two pods of v1; v2 is what edits send paths to.
func newSite(t *testing.T, change ...func(*appv1.Gateway)) *site {
	t.Helper()
	needNode(t)
	s := &site{namespace: newNamespace(t)}
	newBackend(t, s.namespace, "v1", 2)
	newBackend(t, s.namespace, "v2", 1)
	gateway := newGateway(s.routes()...)
	gateway.Spec.Replicas = ptr.To(int32(2))
	for _, change := range change {
		change(gateway)
	}
	waitReplicas(t, s.namespace, "v1", 2)
	waitReplicas(t, s.namespace, "v2", 1)
	create(t, s.namespace, gateway)
	waitReplicas(t, s.namespace, childName, 2)
	s.traffic = newClient(t, s.namespace)
	s.traffic.waitAnswer(t, host, "/", http.StatusOK, "v1")
	return s
}

// routes returns the routes of the newest edit: it alone is at v2.
func (s *site) routes() []appv1.Route {
	return []appv1.Route{route("web", rule("/", backend("v1", 1)), rule(s.edited(), backend("v2", 1)))}
}

func (s *site) edited() string { return fmt.Sprintf("/edit-%d", s.edits) }

// edit changes the routes.
func (s *site) edit(t *testing.T) {
	t.Helper()
	s.edits++
	setRoutes(t, s.namespace, s.routes()...)
}

// run lets a fault happen and end: inject returns when its cause is gone. Losses that allowed does not explain fail the
// test; nil allows none. Afterwards an edit has to be live and told within recoveryTime, and nothing may be left of the
// fault.
func (s *site) run(t *testing.T, name string, allowed func(loss) bool, inject func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		before, usual := s.count(t), s.timeEdit(t)
		probe := s.traffic.watch(t)
		inject(t)
		took := s.timeEdit(t)
		if took > recoveryTime+usual {
			t.Errorf("an edit was live and told after %s, without a fault after %s", took.Round(time.Millisecond), usual.Round(time.Millisecond))
		}
		sent, losses := probe()
		unexplained := slices.DeleteFunc(slices.Clone(losses), func(l loss) bool { return allowed != nil && allowed(l) })
		if sent == 0 || len(unexplained) > 0 {
			t.Errorf("%d of %d requests were lost, %d of them though nothing explains it: %v",
				len(losses), sent, len(unexplained), unexplained[:min(5, len(unexplained))])
		}
		settled := s.expectNoLeak(t, before)
		refused := 0
		for _, l := range losses {
			if l.refused {
				refused++
			}
		}
		record("fault: "+name, fmt.Sprintf("%d requests, %d lost, %d connections refused, right again after %s, nothing left of it after %s",
			sent, len(losses)-refused, refused, took.Round(10*time.Millisecond), settled.Round(10*time.Millisecond)))
	})
}

// timeEdit makes an edit, waits until it is live and told and all proxies take traffic, and says how long that took.
func (s *site) timeEdit(t *testing.T) time.Duration {
	t.Helper()
	begin := time.Now()
	s.edit(t)
	s.waitEdit(t)
	return time.Since(begin)
}

// waitEdit waits until the Gateway is Programmed at its generation, every ready proxy serves the newest edit, and all
// are ready.
func (s *site) waitEdit(t *testing.T) {
	t.Helper()
	var missing error
	defer func() {
		if t.Failed() {
			t.Logf("what was missing: %v", missing)
		}
	}()
	eventually(t, "the newest edit is live and told, by all proxies", func(ctx context.Context) error {
		if err := s.tryEdit(ctx); err != nil && ctx.Err() == nil {
			missing = err
			return err
		}
		return ctx.Err()
	})
}

func (s *site) tryEdit(ctx context.Context) error {
	gateway, err := gateways.AppV1().Gateways(s.namespace).Get(ctx, gatewayName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	condition := meta.FindStatusCondition(gateway.Status.Conditions, appv1.ConditionProgrammed)
	if condition == nil || condition.Status != metav1.ConditionTrue || condition.ObservedGeneration != gateway.Generation {
		return fmt.Errorf("generation %d, condition %+v", gateway.Generation, condition)
	}
	pods, err := livingProxies(ctx, s.namespace)
	if err != nil {
		return err
	}
	for _, pod := range pods {
		if !podIsReady(&pod) {
			return fmt.Errorf("pod %s is not ready", pod.Name)
		}
		direct := &client{address: net.JoinHostPort(pod.Status.PodIP, "80"), http: s.traffic.http}
		got, err := direct.get(ctx, host, s.edited())
		if err != nil {
			return err
		}
		if got.version != "v2" {
			return fmt.Errorf("pod %s does not serve the edit: %d %s", pod.Name, got.status, got.body)
		}
	}
	if want := int(ptr.Deref(gateway.Spec.Replicas, 1)); len(pods) != want {
		return fmt.Errorf("%d proxies, want %d", len(pods), want)
	}
	return nil
}

// livingProxies are the proxy pods that are not about to go.
func livingProxies(ctx context.Context, namespace string) ([]corev1.Pod, error) {
	list, err := kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.example.com/gateway=" + gatewayName})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil }), nil
}

// proxies are the living proxy pods, in the order of their names.
func (s *site) proxies(t *testing.T) []corev1.Pod {
	t.Helper()
	pods := must.Get(livingProxies(t.Context(), s.namespace))(t)
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return pods
}

func podIsReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// loss is a request that was not answered with 200.
type loss struct {
	began time.Time
	// refused reports whether there was no connection, so that nothing was sent: whoever sends it again repeats nothing.
	refused bool
	text    string
}

func (l loss) String() string { return l.began.Format("15:04:05.000 ") + l.text }

// lossTimeout is how long a watched request may take. It may have to wait for what does not answer.
const lossTimeout = 30 * time.Second

// watch sends GET host/ 50 times a second until the function it returns is called; that returns how many were sent and
// which were lost. Every other request opens a connection of its own.
func (c *client) watch(t *testing.T) (stop func() (int, []loss)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	kept := &client{address: c.address, tls: c.tls, http: &http.Client{
		Timeout: lossTimeout, Transport: &http.Transport{DialContext: dialAnew, TLSClientConfig: c.tls},
	}}
	fresh := &client{address: c.address, tls: c.tls, http: &http.Client{
		Timeout: lossTimeout, Transport: &http.Transport{DialContext: dialAnew, DisableKeepAlives: true, TLSClientConfig: c.tls},
	}}
	var mutex sync.Mutex
	var sent int
	var losses []loss
	var group sync.WaitGroup
	group.Go(func() {
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for i := 0; ; i++ {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			sender := []*client{kept, fresh}[i%2]
			group.Go(func() {
				began := time.Now()
				// Its own time limit: the request in flight when the probe ends still counts.
				got, err := sender.get(context.WithoutCancel(ctx), host, "/")
				mutex.Lock()
				defer mutex.Unlock()
				sent++
				if err != nil || got.status != http.StatusOK {
					text := fmt.Sprintf("%d %s %v after %s", got.status, strings.TrimSpace(got.body), err, time.Since(began).Round(time.Millisecond))
					losses = append(losses, loss{began, isDial(err), text})
				}
			})
		}
	})
	return func() (int, []loss) {
		cancel()
		group.Wait()
		kept.http.CloseIdleConnections()
		return sent, losses
	}
}

// isDial reports whether an error is that no connection was made.
func isDial(err error) bool {
	var network *net.OpError
	return errors.As(err, &network) && network.Op == "dial" ||
		errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.EHOSTUNREACH)
}

// refusedFor is how long connections to a pod may be refused, until Kubernetes knows that nobody listens there: a
// second, or some on a busy machine.
const refusedFor = 10 * time.Second

// onlyInFlight allows the losses of a HAProxy that ends all at once: the requests on it at that moment, and, for a few
// seconds, connections that are refused.
func onlyInFlight(killed *time.Time) func(loss) bool {
	return func(l loss) bool {
		if killed.IsZero() {
			return false
		}
		return !l.refused && !l.began.After(*killed) || l.refused && l.began.Before(killed.Add(refusedFor))
	}
}
