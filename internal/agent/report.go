package agent

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	appv1 "gateway/api/app/v1"
	applyappv1 "gateway/generated/app/applyconfiguration/app/v1"
	"gateway/generated/app/clientset/versioned"
	"gateway/internal/logging"
	"gateway/internal/proxypod"
)

const (
	// fieldManager owns the fields of a GatewayProxy.
	fieldManager  = "gateway-agent"
	reportTimeout = 5 * time.Second
	// A report that was not taken in is tried again after firstReportRetry, and then ever more slowly, but at least every
	// lastReportRetry.
	firstReportRetry = 100 * time.Millisecond
	lastReportRetry  = 3 * time.Second
	// reportInterval is the least time between two reports, while changes keep coming.
	reportInterval = time.Second
	// renewInterval is how often a report that has not changed is applied again, in case somebody deleted or changed
	// it. That writes nothing if it is as it was.
	renewInterval = time.Minute
	// maxMessage is the longest message the API takes.
	maxMessage = 1024
	// maxProblems is the most problems the API takes.
	maxProblems = 16
)

// report is the state of a pod, with the Gateway that it is about.
type report struct {
	uid        types.UID
	generation int64
	resources  []appv1.ProxiedResource
	problems   []appv1.ProxyProblem
	// omitted is how many more problems there are.
	omitted int
}

func (r report) equal(other report) bool {
	return r.uid == other.uid && r.generation == other.generation && r.omitted == other.omitted && slices.Equal(r.resources, other.resources) && slices.Equal(r.problems, other.problems)
}

// cut shortens a message to a number of bytes.
func cut(message string, size int) string {
	if len(message) <= size {
		return message
	}
	return strings.ToValidUTF8(message[:size], "")
}

// reporter writes the GatewayProxy of the pod, in a goroutine of its own: an API server that does not answer must not
// keep HAProxy from being updated.
type reporter struct {
	gateways           versioned.Interface
	namespace, gateway string
	pod                string
	podUID             types.UID
	addresses          []netip.Addr
	// confirm is called with the generation that the Gateway has, after the API server has taken in a report and the
	// pod is an endpoint.
	confirm func(uid types.UID, generation int64)
	// queue holds the pod's name when there may be something to do.
	queue workqueue.TypedRateLimitingInterface[string]
	clock clock.WithTicker
	// interval is reportInterval.
	interval time.Duration

	mu sync.Mutex
	// wanted is the newest report; its uid is "" before there is one. isEndpoint reports whether the pod is an endpoint of
	// the Gateway's Service.
	wanted     report
	isEndpoint bool

	// The goroutine alone touches what follows. written is the report that the API server took in last, and when. madeAt
	// is when it took in the GatewayProxy without its status.
	written           report
	writtenAt, madeAt time.Time
	// confirmed is the Gateway whose generation was passed to confirm.
	confirmed types.UID
}

func newReporter(options Options, clock clock.WithTicker, confirm func(uid types.UID, generation int64)) *reporter {
	return &reporter{
		gateways:  options.Gateways,
		namespace: options.Namespace,
		gateway:   options.Gateway,
		pod:       options.Pod,
		podUID:    options.PodUID,
		addresses: options.Addresses,
		confirm:   confirm,
		clock:     clock,
		interval:  reportInterval,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstReportRetry, lastReportRetry),
			workqueue.TypedRateLimitingQueueConfig[string]{Clock: clock}),
	}
}

// set replaces the report, and reports whether the pod is an endpoint of the Gateway's Service. It never blocks.
func (r *reporter) set(wanted report, isEndpoint bool) {
	all := len(wanted.problems)
	wanted.problems = slices.Clone(wanted.problems[:min(all, maxProblems)])
	wanted.omitted = all - len(wanted.problems)
	for i := range wanted.problems {
		wanted.problems[i].Message = cut(wanted.problems[i].Message, maxMessage)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.isEndpoint != isEndpoint || !r.wanted.equal(wanted) {
		r.wanted, r.isEndpoint = wanted, isEndpoint
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
	due := r.writtenAt.Add(renewInterval)
	if !r.written.equal(wanted) {
		due = r.writtenAt.Add(r.interval)
	}
	if wait := due.Sub(r.clock.Now()); wait > 0 {
		r.queue.AddAfter(r.pod, wait)
	} else {
		if err := r.apply(ctx, wanted); err != nil {
			return err
		}
		r.written, r.writtenAt = wanted, r.clock.Now()
		r.queue.AddAfter(r.pod, renewInterval)
	}
	if !isEndpoint || r.written.uid != wanted.uid || r.confirmed == wanted.uid {
		return nil
	}
	return r.readGateway(ctx, wanted.uid)
}

// apply writes the report to the GatewayProxy.
func (r *reporter) apply(ctx context.Context, wanted report) error {
	status := applyappv1.GatewayProxyStatus().
		WithGateway(applyappv1.ProxiedGateway().WithName(r.gateway).WithUID(wanted.uid)).
		WithObservedGeneration(wanted.generation)
	for _, address := range r.addresses {
		status.WithAddresses(appv1.NodeAddress(address.String()))
	}
	for _, resource := range wanted.resources {
		status.WithResources(applyappv1.ProxiedResource().
			WithResource(resource.Resource).WithNamespace(resource.Namespace).WithResourceVersion(resource.ResourceVersion))
	}
	for _, problem := range wanted.problems {
		origin := applyappv1.ProblemOrigin().WithKind(problem.Origin.Kind).WithNamespace(problem.Origin.Namespace).WithName(problem.Origin.Name)
		if problem.Origin.Generation != 0 {
			origin.WithGeneration(problem.Origin.Generation)
		}
		applied := applyappv1.ProxyProblem().WithOrigin(origin).WithReason(problem.Reason).WithMessage(problem.Message)
		if problem.Listener != "" {
			applied.WithListener(problem.Listener)
		}
		status.WithProblems(applied)
	}
	if wanted.omitted > 0 {
		status.WithOmittedProblems(int32(wanted.omitted)) //nolint:gosec // far fewer
	}
	// Of this, the API server first takes all but the status, and then the status alone.
	proxy := applyappv1.GatewayProxy(r.pod, r.namespace).
		WithLabels(map[string]string{proxypod.LabelGateway: r.gateway}).
		WithOwnerReferences(metav1ac.OwnerReference().WithAPIVersion("v1").WithKind("Pod").WithName(r.pod).WithUID(r.podUID)).
		WithStatus(status)
	client, options := r.gateways.AppV1().GatewayProxies(r.namespace), metav1.ApplyOptions{FieldManager: fieldManager, Force: true}
	if r.clock.Since(r.madeAt) >= renewInterval {
		if _, err := client.Apply(ctx, proxy, options); err != nil {
			return fmt.Errorf("failed to apply GatewayProxy %s/%s: %w", r.namespace, r.pod, err)
		}
		r.madeAt = r.clock.Now()
	}
	if _, err := client.ApplyStatus(ctx, proxy, options); err != nil {
		r.madeAt = time.Time{} // somebody may have deleted it
		return fmt.Errorf("failed to apply the status of GatewayProxy %s/%s: %w", r.namespace, r.pod, err)
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
