package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	appv1 "gateway/api/app/v1"
)

const (
	// editHeader has the number of the edit that a proxy answered by.
	editHeader = "X-Edit"
	// racing is how long edits and probes race at least.
	racing = 30 * time.Second
	// wantSeen is how often status has to say Programmed meanwhile.
	wantSeen = 20
)

// TestProgrammedIsNeverEarly: when status says Programmed at a generation, every request that is sent after that to any
// ready proxy is answered by this generation or a later one; while routes are edited as fast as it goes, some edits
// need a reload, and proxies come and go.
func TestProgrammedIsNeverEarly(t *testing.T) {
	needNode(t)
	t.Parallel()
	r := &race{namespace: newNamespace(t), edits: map[int64]int{}}
	newBackend(t, r.namespace, "v1", 1)
	waitReplicas(t, r.namespace, "v1", 1)
	gateway := newGateway(numberedRoutes(0)...)
	gateway.Spec.Replicas = ptr.To(int32(2))
	create(t, r.namespace, gateway)
	waitReplicas(t, r.namespace, childName, 2)

	ctx, cancel := context.WithTimeout(t.Context(), 2*soon)
	defer cancel()
	var group sync.WaitGroup
	group.Go(func() { r.scale(ctx, t) })
	group.Go(func() { r.watch(ctx, t) })
	r.edit(ctx, t)
	cancel()
	group.Wait()
	record("Programmed seen at a generation / probes of ready proxies then / answered by an earlier one",
		fmt.Sprintf("%d / %d / %d", r.seen, r.probes, r.early))
	if !r.proves() {
		t.Errorf("status said Programmed %d times and %d probes were answered: that proves little", r.seen, r.probes)
	}
}

// race is what the edits and the probes share.
type race struct {
	namespace string
	mutex     sync.Mutex
	// edits are the numbers of the edits by generation.
	edits               map[int64]int
	seen, probes, early int
}

// proves: status said Programmed often enough, and proxies were asked each time.
func (r *race) proves() bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.seen >= wantSeen && r.probes >= r.seen
}

// numberedRoutes answers with the number of the edit in a header. Every tenth edit tests a header that none tested
// before, which takes a reload.
func numberedRoutes(n int) []appv1.Route {
	all := rule("/", backend("v1", 1))
	all.Filters = []appv1.RuleFilter{{Type: appv1.RuleFilterResponseHeaderModifier, ResponseHeaderModifier: &appv1.HeaderFilter{
		Set: []appv1.Header{{Name: editHeader, Value: strconv.Itoa(n)}},
	}}}
	some := rule("/", backend("v1", 1))
	some.Matches[0].Headers = []appv1.HeaderMatch{{Name: appv1.HeaderName(fmt.Sprintf("X-Condition-%d", n/10)), Value: "yes"}}
	return []appv1.Route{route("web", all, some)}
}

// edit edits the route, each time with another number, until the race proves something or ctx ends.
func (r *race) edit(ctx context.Context, t *testing.T) {
	t.Helper()
	begin := time.Now()
	for n := 1; ctx.Err() == nil && (time.Since(begin) < racing || !r.proves()); n++ {
		setRoutes(t, r.namespace, numberedRoutes(n)...)
		// Some edits come before the one before is live, and some after it was reported, which takes up to a second.
		select {
		case <-ctx.Done():
		case <-time.After([]time.Duration{0, 150, 1500, 300}[n%4] * time.Millisecond):
		}
	}
}

// scale adds and removes proxies.
func (r *race) scale(ctx context.Context, t *testing.T) {
	t.Helper()
	for n := 0; ctx.Err() == nil; n++ {
		body := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, []int{4, 2, 3, 1}[n%4])
		_, err := gateways.AppV1().Gateways(r.namespace).Patch(t.Context(), gatewayName, types.MergePatchType, body, metav1.PatchOptions{})
		if err != nil {
			t.Error(err)
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(8 * time.Second):
		}
	}
}

// watch probes all ready proxies whenever the Gateway's status says Programmed.
func (r *race) watch(ctx context.Context, t *testing.T) {
	t.Helper()
	watcher, err := gateways.AppV1().Gateways(r.namespace).Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", gatewayName).String(),
	})
	if err != nil {
		t.Error(err)
		return
	}
	defer watcher.Stop()
	var probes sync.WaitGroup
	defer probes.Wait()
	for event := range watcher.ResultChan() {
		if ctx.Err() != nil {
			return
		}
		gateway, ok := event.Object.(*appv1.Gateway)
		if !ok || event.Type == watch.Deleted {
			t.Errorf("the watch has %s %v", event.Type, event.Object)
			return
		}
		if edit, ok := r.programmed(gateway); ok {
			probes.Go(func() { r.probeAll(context.WithoutCancel(ctx), t, edit) })
		}
	}
}

// programmed returns which edit the status says is live in all proxies, if it does.
func (r *race) programmed(gateway *appv1.Gateway) (edit int, ok bool) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	value := gateway.Spec.Routes[0].Rules[0].Filters[0].ResponseHeaderModifier.Set[0].Value
	r.edits[gateway.Generation], _ = strconv.Atoi(value)
	condition := meta.FindStatusCondition(gateway.Status.Conditions, appv1.ConditionProgrammed)
	if condition == nil || condition.Status != metav1.ConditionTrue {
		return 0, false
	}
	// The watch has shown the spec of every generation before.
	edit, ok = r.edits[condition.ObservedGeneration]
	r.seen++
	return edit, ok
}

func (r *race) probeAll(ctx context.Context, t *testing.T, want int) {
	t.Helper()
	for _, ip := range r.ready(ctx, t) {
		got, err := probeEdit(ctx, ip)
		if err != nil {
			// A pod that has begun to stop since may not answer any more.
			if slices.Contains(r.ready(ctx, t), ip) {
				t.Errorf("the ready proxy %s does not answer: %v", ip, err)
			}
			continue
		}
		r.mutex.Lock()
		r.probes++
		if got < want {
			r.early++
			t.Errorf("%s: Programmed said edit %d is live, %s answers by edit %d", time.Now().Format("15:04:05.000"), want, ip, got)
		}
		r.mutex.Unlock()
	}
}

// ready are the addresses of the proxies that receive traffic.
func (r *race) ready(ctx context.Context, t *testing.T) []string {
	t.Helper()
	list, err := kube.DiscoveryV1().EndpointSlices(r.namespace).List(ctx, metav1.ListOptions{
		LabelSelector: discoveryv1.LabelServiceName + "=" + childName,
	})
	if err != nil {
		t.Error(err)
		return nil
	}
	var ips []string
	for _, slice := range list.Items {
		for _, endpoint := range slice.Endpoints {
			if ptr.Deref(endpoint.Conditions.Ready, true) {
				ips = append(ips, endpoint.Addresses[0])
			}
		}
	}
	return ips
}

// probeEdit asks a proxy on a new connection which edit it answers by.
func probeEdit(ctx context.Context, ip string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(ip, "80")+"/", nil)
	if err != nil {
		return 0, err
	}
	request.Host = host
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return 0, err
	}
	if response.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("answered %d", response.StatusCode)
	}
	return strconv.Atoi(response.Header.Get(editHeader))
}
