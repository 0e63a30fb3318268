package logs

import (
	"bufio"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"gateway/internal/proxypod"
)

// maxLine bounds a line; HAProxy's have 16 KiB.
const maxLine = 1 << 20

// reader reads the logs of pods.
type reader struct {
	core      *corev1client.CoreV1Client
	namespace string
	// since is how far back it reads; 0: to the beginning.
	since time.Duration
	// seen is up to when the log of a pod was read.
	seen map[string]time.Time
	// lookAgain is how often it looks for pods whose logs nobody reads: new ones, and those whose container starts again.
	lookAgain time.Duration
}

// read passes on the lines that a pod logged after a time, if that is not zero, and continues with new ones.
func (r *reader) read(ctx context.Context, pod string, after time.Time, options corev1.PodLogOptions, take func(line)) error {
	options.Container, options.Timestamps = proxypod.HAProxyContainer, true
	if !after.IsZero() {
		options.SinceTime = &metav1.Time{Time: after} // which counts whole seconds
	} else if r.since > 0 {
		options.SinceSeconds = new(max(int64(r.since.Seconds()), 1))
	}
	stream, err := r.core.Pods(r.namespace).GetLogs(pod, &options).Stream(ctx)
	if err != nil {
		return fmt.Errorf("failed to read the log of Pod %s/%s: %w", r.namespace, pod, err)
	}
	defer stream.Close() //nolint:errcheck // all was read
	lines := bufio.NewScanner(stream)
	lines.Buffer(nil, maxLine)
	before := after
	for lines.Scan() {
		l := parse(pod, lines.Text(), before)
		if before = l.time; after.IsZero() || l.time.After(after) {
			take(l)
		}
	}
	if err := lines.Err(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("failed to read the log of Pod %s/%s: %w", r.namespace, pod, err)
	}
	return nil
}

// follow passes on the lines of all pods, including new ones, until ctx ends or something may not be read. It reads the
// log of a pod to the end.
func (r *reader) follow(ctx context.Context, gateway string, show func(line) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type end struct {
		pod string
		err error
	}
	lines, ended := make(chan line), make(chan end)
	reading := map[string]bool{}
	start := func(pod string, after time.Time) {
		reading[pod] = true
		go func() {
			err := r.read(ctx, pod, after, corev1.PodLogOptions{Follow: true}, func(l line) {
				select {
				case lines <- l:
				case <-ctx.Done():
				}
			})
			select {
			case ended <- end{pod, err}:
			case <-ctx.Done():
			}
		}()
	}
	for look := time.After(0); ; {
		select {
		case <-ctx.Done():
			return nil
		case l := <-lines:
			r.seen[l.pod] = l.time
			if err := show(l); err != nil {
				return err
			}
		case end := <-ended:
			if delete(reading, end.pod); apierrors.IsForbidden(end.err) {
				return end.err
			}
		case <-look:
			pods, err := r.core.Pods(r.namespace).List(ctx, metav1.ListOptions{LabelSelector: proxypod.PodSelector(gateway).String()})
			if apierrors.IsForbidden(err) {
				return fmt.Errorf("failed to list Pods in %s: %w", r.namespace, err)
			} // what else goes wrong is tried again
			for i := 0; err == nil && i < len(pods.Items); i++ {
				if name := pods.Items[i].Name; !reading[name] {
					start(name, r.seen[name])
				}
			}
			look = time.After(r.lookAgain)
		}
	}
}
