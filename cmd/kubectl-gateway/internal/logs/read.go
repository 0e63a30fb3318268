package logs

import (
	"bufio"
	"context"
	"fmt"
	"iter"
	"time"

	corev1 "k8s.io/api/core/v1"
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
}

// read returns the lines that a pod logged after a time, if that is not zero, and goes on with those to come. An error
// is the last element.
func (r *reader) read(ctx context.Context, pod string, after time.Time, options corev1.PodLogOptions) iter.Seq2[line, error] {
	options.Container, options.Timestamps = proxypod.HAProxyContainer, true
	if !after.IsZero() {
		options.SinceTime = &metav1.Time{Time: after} // which counts whole seconds
	} else if r.since > 0 {
		seconds := max(int64(r.since.Seconds()), 1)
		options.SinceSeconds = &seconds
	}
	return func(yield func(line, error) bool) {
		stream, err := r.core.Pods(r.namespace).GetLogs(pod, &options).Stream(ctx)
		if err != nil {
			yield(line{}, fmt.Errorf("failed to read the log of Pod %s/%s: %w", r.namespace, pod, err))
			return
		}
		defer stream.Close() //nolint:errcheck // all was read, or nobody wants the rest
		lines := bufio.NewScanner(stream)
		lines.Buffer(nil, maxLine)
		for lines.Scan() {
			l := parse(pod, lines.Text())
			if !after.IsZero() && !l.time.After(after) {
				continue
			}
			if !yield(l, nil) {
				return
			}
		}
		if err := lines.Err(); err != nil && ctx.Err() == nil {
			yield(line{}, fmt.Errorf("failed to read the log of Pod %s/%s: %w", r.namespace, pod, err))
		}
	}
}

// merge returns the lines of all logs in the order of their times, each log being in order, and the errors in between.
func merge(logs []iter.Seq2[line, error]) iter.Seq2[line, error] {
	return func(yield func(line, error) bool) {
		type head struct {
			line line
			err  error
			next func() (line, error, bool)
		}
		var heads []*head
		for _, log := range logs {
			next, stop := iter.Pull2(log)
			defer stop()
			h := &head{next: next}
			if l, err, ok := next(); ok {
				h.line, h.err = l, err
				heads = append(heads, h)
			}
		}
		for len(heads) > 0 {
			first := 0
			for i, h := range heads {
				if h.line.time.Before(heads[first].line.time) {
					first = i
				}
			}
			h := heads[first]
			if !yield(h.line, h.err) {
				return
			}
			var ok bool
			if h.line, h.err, ok = h.next(); !ok {
				heads = append(heads[:first], heads[first+1:]...)
			}
		}
	}
}
