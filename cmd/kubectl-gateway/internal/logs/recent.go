package logs

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

// Recent passes on what a proxy pod logged about requests in the last time, up to a number of bytes. It returns how
// long it took the pod to log that.
func Recent(ctx context.Context, core *corev1client.CoreV1Client, pod *corev1.Pod, since time.Duration, limit int64, take func(Access)) (time.Duration, error) {
	if pod.Status.Phase != corev1.PodRunning {
		return 0, fmt.Errorf("no log is read of Pod %s/%s: it is %s", pod.Namespace, pod.Name, pod.Status.Phase)
	}
	bytes, first, last := int64(0), time.Time{}, time.Time{}
	r := &reader{core: core, namespace: pod.Namespace, since: since}
	err := r.read(ctx, pod.Name, time.Time{}, corev1.PodLogOptions{LimitBytes: &limit}, func(l line) {
		bytes += int64(len(l.text) + len(time.RFC3339Nano) + 1)
		if last = l.time; first.IsZero() {
			first = l.time
		}
		if l.access != nil {
			take(*l.access)
		}
	})
	switch start := pod.Status.StartTime; {
	case err != nil:
		return 0, err
	case bytes > limit-maxLine/4: // the rest was cut off
		return max(last.Sub(first), time.Millisecond), nil
	case start != nil && time.Since(start.Time) < since:
		return max(time.Since(start.Time), time.Second), nil
	}
	return since, nil
}

// Follow passes on the requests to a Gateway that end from now on, until ctx ends or take returns an error.
func Follow(ctx context.Context, core *corev1client.CoreV1Client, namespace, gateway string, take func(pod string, at time.Time, a Access) error) error {
	start := time.Now()
	r := &reader{core: core, namespace: namespace, since: time.Second, seen: map[string]time.Time{}, lookAgain: time.Second}
	return r.follow(ctx, gateway, func(l line) error {
		if l.access == nil || l.time.Before(start) {
			return nil
		}
		return take(l.pod, l.time, *l.access)
	})
}
