package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/golang/glog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	appv1 "gateway/api/app/v1"
	applyappv1 "gateway/generated/app/applyconfiguration/app/v1"
	typedappv1 "gateway/generated/app/clientset/versioned/typed/app/v1"
)

const (
	reportTimeout    = 5 * time.Second
	firstReportRetry = 100 * time.Millisecond
	lastReportRetry  = 3 * time.Second
	// goodbyeTimeout bounds the removal of the entry when the pod ends: the operator removes it too, later.
	goodbyeTimeout = 3 * time.Second
	// maxMessage and maxProblem are the longest messages the API takes, of a proxy and of a problem.
	maxMessage = 1024
	maxProblem = 512
	// maxProblems is the most problems the API takes.
	maxProblems = 16
)

// report is what a pod runs, of which Gateway.
type report struct {
	uid        types.UID
	generation int64
	// live is the generation that HAProxy runs, if not all of it; it is not told, but decides whether the pod may become ready.
	live    int64
	message string
	// problems are sorted.
	problems []appv1.ProxyProblem
}

func (r report) equal(other report) bool {
	return r.uid == other.uid && r.generation == other.generation && r.live == other.live && r.message == other.message &&
		slices.Equal(r.problems, other.problems)
}

// cut shortens a message to a number of bytes.
func cut(message string, size int) string {
	if len(message) <= size {
		return message
	}
	return strings.ToValidUTF8(message[:size], "")
}

// reporter keeps the pod's entry in the Gateway's status.proxies, in a goroutine of its own: an API server that does not
// answer must not keep HAProxy from being updated.
type reporter struct {
	gateways           typedappv1.GatewayInterface
	namespace, gateway string
	pod                string
	// confirmed is called with the generation of a report that the API server took in, unless a newer one was said to be live
	// everywhere then.
	confirmed func(generation int64)
	// wake holds an element when there is something to write.
	wake chan struct{}

	mu sync.Mutex
	// follows is the UID of the Gateway that there is; "" if none was seen yet. A report of another one is not written.
	follows types.UID
	// wanted is the newest report, valid once there is one.
	wanted report
	valid  bool
	// written is the report that is in the Gateway, as far as is known; the zero value if none is. writtenVersion is the version that the
	// Gateway had then.
	written        report
	writtenVersion string
	// seen is the entry in the Gateway that was seen last, nil for none, and seenVersion that Gateway's version.
	seen        *appv1.ProxyStatus
	seenVersion string
}

func newReporter(options Options, confirmed func(generation int64)) *reporter {
	return &reporter{
		confirmed: confirmed,
		gateways:  options.Gateways.AppV1().Gateways(options.Namespace),
		namespace: options.Namespace,
		gateway:   options.Gateway,
		pod:       options.Pod,
		wake:      make(chan struct{}, 1),
	}
}

// set replaces the report. It never blocks.
func (r *reporter) set(wanted report) {
	wanted.message = cut(wanted.message, maxMessage)
	wanted.problems = wanted.problems[:min(len(wanted.problems), maxProblems)]
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.valid && r.wanted.equal(wanted) {
		return
	}
	r.wanted, r.valid = wanted, true
	r.rouse()
}

// follow notes which Gateway there is. That HAProxy runs what one of the name was before it says nothing of this one.
func (r *reporter) follow(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if uid != r.follows {
		r.follows = uid
		r.rouse() // its report may be here already
	}
}

// observe takes in the entry that was seen in a version of the Gateway, nil for none. What was written is written again if somebody
// took it away.
func (r *reporter) observe(entry *appv1.ProxyStatus, version string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	wentBack := isNewer(r.seenVersion, version)
	r.seen, r.seenVersion = entry, version
	if wentBack {
		r.lose() // etcd was restored from a backup.
		return
	}
	r.compare()
}

// compare looks for what was written in what was seen, if that is newer. It is called after each of both: the answer to a write may come
// after the news of what happened next.
func (r *reporter) compare() {
	if !isNewer(r.seenVersion, r.writtenVersion) {
		return
	}
	seen := report{uid: r.written.uid, live: r.written.live}
	if r.seen != nil {
		seen.generation, seen.message, seen.problems = r.seen.ObservedGeneration, r.seen.Message, r.seen.Problems
	}
	if r.seen == nil || !r.written.equal(seen) {
		r.lose()
	}
}

// lose notes that what was written is not in the Gateway any more.
func (r *reporter) lose() {
	if r.writtenVersion != "" {
		r.written, r.writtenVersion = report{}, ""
		r.rouse()
	}
}

// isNewer compares two versions of one object; "" is none.
func isNewer(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order > 0
}

func (r *reporter) rouse() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// run writes reports until ctx ends.
func (r *reporter) run(ctx context.Context) {
	retry := time.NewTimer(time.Hour)
	defer retry.Stop()
	delay := firstReportRetry
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		case <-retry.C:
		}
		err := r.write(ctx)
		if err == nil {
			delay = firstReportRetry
			continue
		}
		if ctx.Err() == nil {
			glog.Warningf("%v (next try in %s)", err, delay)
		}
		retry.Reset(delay)
		delay = min(2*delay, lastReportRetry)
	}
}

// write applies the newest report, if the API server does not have it yet.
func (r *reporter) write(ctx context.Context) error {
	r.mu.Lock()
	another := r.follows != "" && r.wanted.uid != r.follows
	wanted, done := r.wanted, !r.valid || another || r.written.equal(r.wanted)
	r.mu.Unlock()
	if done {
		return nil
	}
	entry := applyappv1.ProxyStatus().WithPod(r.pod).WithObservedGeneration(wanted.generation)
	if wanted.message != "" {
		entry.WithMessage(wanted.message)
	}
	for _, problem := range wanted.problems {
		applied := applyappv1.ProxyProblem().WithKind(problem.Kind).WithName(problem.Name).WithMessage(problem.Message)
		if problem.Listener != "" {
			applied.WithListener(problem.Listener)
		}
		entry.WithProblems(applied)
	}
	gateway, err := r.apply(ctx, reportTimeout, wanted.uid, entry)
	if err != nil {
		return err
	}
	programmed := meta.FindStatusCondition(gateway.Status.Conditions, appv1.ConditionProgrammed)
	if programmed == nil || programmed.Status != metav1.ConditionTrue || programmed.ObservedGeneration <= wanted.live {
		r.confirmed(wanted.live)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.written, r.writtenVersion = wanted, gateway.ResourceVersion
	r.compare()
	return nil
}

// goodbye removes the entry. It goes with its Gateway, too.
func (r *reporter) goodbye() {
	r.mu.Lock()
	uid, valid := r.wanted.uid, r.valid
	r.mu.Unlock()
	if !valid {
		return
	}
	if _, err := r.apply(context.Background(), goodbyeTimeout, uid); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		glog.Warningf("The operator will have to clean up: %v", err)
	}
}

// apply makes the entries all that this pod owns of the Gateway's status, and returns the Gateway as it is then. One of another UID takes
// nothing.
func (r *reporter) apply(
	ctx context.Context, timeout time.Duration, uid types.UID, entries ...*applyappv1.ProxyStatusApplyConfiguration,
) (*appv1.Gateway, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	gateway := applyappv1.Gateway(r.gateway, r.namespace).WithUID(uid)
	if len(entries) > 0 { // An empty status would keep the pod's name in managedFields for ever.
		gateway.WithStatus(applyappv1.GatewayStatus().WithProxies(entries...))
	}
	updated, err := r.gateways.ApplyStatus(ctx, gateway, metav1.ApplyOptions{FieldManager: r.pod, Force: true})
	if err != nil {
		return nil, fmt.Errorf("failed to apply the status of Gateway %s/%s: %w", r.namespace, r.gateway, err)
	}
	return updated, nil
}
