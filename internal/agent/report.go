package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	appv1 "gateway/api/app/v1"
	"gateway/generated/app/clientset/versioned"
	"gateway/internal/logging"
	"gateway/internal/model"
	"gateway/internal/proxypod"
)

const (
	// fieldManager is what the agent is called where it writes a GatewayProxy.
	fieldManager  = "gateway-agent"
	reportTimeout = 5 * time.Second
	// A report that was not taken in is tried again after firstReportRetry, and then ever more slowly, but at least every
	// lastReportRetry.
	firstReportRetry = 100 * time.Millisecond
	lastReportRetry  = 3 * time.Second
	// reportInterval is the time between two reports, while changes keep coming. The first reportBurst are made at once.
	reportInterval = time.Second
	reportBurst    = 3
	// renewInterval is how often a report is applied without a change that somebody may wait for, in case somebody deleted
	// or changed it. It tells the newest versions.
	renewInterval = time.Minute
	// maxProblems is the most problems the API takes.
	maxProblems = 16
)

// reporter writes the GatewayProxy of the pod, in a goroutine of its own: an API server that does not answer must not
// keep HAProxy from being updated.
type reporter struct {
	gateways           versioned.Interface
	namespace, gateway string
	pod                string
	podUID             types.UID
	addresses          []appv1.NodeAddress
	// confirm is called with the generation that the Gateway has, after the API server has taken in a report and the
	// pod is an endpoint.
	confirm func(uid types.UID, generation int64)
	// queue holds the pod's name when there may be something to do.
	queue workqueue.TypedRateLimitingInterface[string]
	clock clock.WithTicker
	limit *rate.Limiter

	mu sync.Mutex
	// wanted is the newest report; its Gateway has no UID before there is one. isEndpoint reports whether the pod is an
	// endpoint of the Gateway's Service.
	wanted     report
	isEndpoint bool

	// The goroutine alone touches what follows. written is the report that the API server took in last, and when. madeAt
	// is when it took in the GatewayProxy without its status.
	written           report
	writtenAt, madeAt time.Time
	// confirmed is the Gateway whose generation was passed to confirm.
	confirmed types.UID
}

// report is what the pod runs, with the Edits of its Versions.
type report struct {
	appv1.GatewayProxyStatus
	edits int64
}

// isNews reports whether a report has something that somebody may wait for, after another one.
func (r report) isNews(before report) bool {
	for _, one := range []*report{&r, &before} {
		one.ResourceVersion, one.Resources = "", nil
	}
	return r.edits != before.edits || !equality.Semantic.DeepEqual(r.GatewayProxyStatus, before.GatewayProxyStatus)
}

func newReporter(options Options, clock clock.WithTicker, confirm func(uid types.UID, generation int64)) *reporter {
	r := &reporter{
		gateways:  options.Gateways,
		namespace: options.Namespace,
		gateway:   options.Gateway,
		pod:       options.Pod,
		podUID:    options.PodUID,
		confirm:   confirm,
		clock:     clock,
		limit:     rate.NewLimiter(rate.Every(reportInterval), reportBurst),
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstReportRetry, lastReportRetry),
			workqueue.TypedRateLimitingQueueConfig[string]{Clock: clock}),
	}
	for _, address := range options.Addresses {
		r.addresses = append(r.addresses, appv1.NodeAddress(address.String()))
	}
	return r
}

// set replaces the report. edits counts the edits that its Versions include, and isEndpoint reports whether the pod is
// an endpoint of the Gateway's Service. It never blocks.
func (r *reporter) set(wanted appv1.GatewayProxyStatus, edits int64, isEndpoint bool) {
	wanted.Gateway.Name, wanted.Addresses = r.gateway, r.addresses
	all := len(wanted.Problems)
	wanted.Problems = slices.Clone(wanted.Problems[:min(all, maxProblems)])
	wanted.OmittedProblems = int32(all - len(wanted.Problems)) //nolint:gosec // far fewer
	for i := range wanted.Problems {
		problem := &wanted.Problems[i]
		problem.Message, problem.Origin.Name = model.Cut(problem.Message, model.MaxMessage), model.Cut(problem.Origin.Name, model.MaxName)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	before, wasEndpoint := r.wanted, r.isEndpoint
	r.wanted, r.isEndpoint = report{wanted, edits}, isEndpoint
	if isEndpoint != wasEndpoint || r.wanted.isNews(before) {
		r.queue.Add(r.pod)
	}
}

// run writes reports until ctx ends.
func (r *reporter) run(ctx context.Context) {
	stop := context.AfterFunc(ctx, r.queue.ShutDown)
	defer stop()
	for {
		pod, shutdown := r.queue.Get()
		if shutdown {
			return
		}
		if err := r.sync(ctx); err == nil {
			r.queue.Forget(pod)
		} else if ctx.Err() == nil {
			logging.Warningf("Trying again: %v", err)
			r.queue.AddRateLimited(pod)
		}
		r.queue.Done(pod)
	}
}

// sync sends the newest report to the API server, and finds out whether the pod may become ready.
func (r *reporter) sync(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	r.mu.Lock()
	wanted, isEndpoint := r.wanted, r.isEndpoint
	r.mu.Unlock()
	if wait := r.wait(wanted); wait > 0 {
		r.queue.AddAfter(r.pod, wait)
	} else {
		if err := r.write(ctx, wanted.GatewayProxyStatus); err != nil {
			return err
		}
		r.written, r.writtenAt = wanted, r.clock.Now()
		r.queue.AddAfter(r.pod, renewInterval)
	}
	uid := wanted.Gateway.UID
	if !isEndpoint || r.written.Gateway.UID != uid || r.confirmed == uid {
		return nil
	}
	return r.readGateway(ctx, uid)
}

// wait returns how long a report has to wait. If it need not, it counts as made.
func (r *reporter) wait(wanted report) time.Duration {
	now := r.clock.Now()
	if !wanted.isNews(r.written) {
		return r.writtenAt.Add(renewInterval).Sub(now)
	}
	turn := r.limit.ReserveN(now, 1)
	wait := turn.DelayFrom(now)
	if wait > 0 {
		turn.CancelAt(now)
	}
	return wait
}

// write writes the report to the GatewayProxy. Of that, the API server takes the status alone, or all but the status.
func (r *reporter) write(ctx context.Context, wanted appv1.GatewayProxyStatus) error {
	if r.madeAt.IsZero() {
		if err := r.make(ctx); err != nil {
			return err
		}
	}
	report := []map[string]any{{"op": "add", "path": "/status", "value": wanted}} // in place of what is there
	if err := r.patch(ctx, types.JSONPatchType, report, "status"); err != nil {
		r.madeAt = time.Time{} // somebody may have deleted it
		return err
	}
	if r.clock.Since(r.madeAt) < renewInterval {
		return nil
	}
	return r.make(ctx)
}

// make makes the GatewayProxy as it should be, but for its status. The API server is not to note who set which fields
// of it: that would take as much time as the rest of a report.
func (r *reporter) make(ctx context.Context) error {
	proxy := &appv1.GatewayProxy{ObjectMeta: metav1.ObjectMeta{
		Namespace: r.namespace, Name: r.pod, Labels: map[string]string{proxypod.LabelGateway: r.gateway},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: r.pod, UID: r.podUID}},
	}}
	wanted := map[string]any{"metadata": map[string]any{
		"labels": proxy.Labels, "ownerReferences": proxy.OwnerReferences, "managedFields": []any{map[string]any{}},
	}}
	err := r.patch(ctx, types.MergePatchType, wanted)
	if apierrors.IsNotFound(err) {
		_, err = r.gateways.AppV1().GatewayProxies(r.namespace).Create(ctx, proxy, metav1.CreateOptions{FieldManager: fieldManager})
		if err != nil {
			return fmt.Errorf("failed to create GatewayProxy %s/%s: %w", r.namespace, r.pod, err)
		}
		err = r.patch(ctx, types.MergePatchType, wanted)
	}
	if err == nil {
		r.madeAt = r.clock.Now()
	}
	return err
}

// patch changes the GatewayProxy, or a subresource of it.
func (r *reporter) patch(ctx context.Context, kind types.PatchType, patch any, subresources ...string) error {
	text, err := json.Marshal(patch)
	if err == nil {
		options := metav1.PatchOptions{FieldManager: fieldManager}
		_, err = r.gateways.AppV1().GatewayProxies(r.namespace).Patch(ctx, r.pod, kind, text, options, subresources...)
	}
	what := "GatewayProxy"
	if len(subresources) > 0 {
		what = "the status of GatewayProxy"
	}
	if err != nil {
		return fmt.Errorf("failed to write %s %s/%s: %w", what, r.namespace, r.pod, err)
	}
	return nil
}

// readGateway passes on the present generation of the Gateway. A cache may lag behind. An agent may list its Gateway,
// and no more. If the Gateway is gone or another one has its name, the watch reports that.
func (r *reporter) readGateway(ctx context.Context, uid types.UID) error {
	list, err := r.gateways.AppV1().Gateways(r.namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, r.gateway).String(),
	})
	if err != nil {
		return fmt.Errorf("failed to read Gateway %s/%s: %w", r.namespace, r.gateway, err)
	}
	for i := range list.Items {
		if gateway := &list.Items[i]; gateway.Name == r.gateway && gateway.UID == uid {
			r.confirmed = uid
			r.confirm(uid, gateway.Generation)
		}
	}
	return nil
}
