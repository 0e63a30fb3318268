package clustertest

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gateway/cmd/kubectl-gateway/internal/cli"
)

// operate takes the operator's place in a namespace: every Gateway becomes programmed, until it is stopped.
func operate(t *testing.T, namespace string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			list, err := clients.Gateways.AppV1().Gateways(namespace).List(ctx, metav1.ListOptions{})
			for i := 0; err == nil && i < len(list.Items); i++ {
				if live := &list.Items[i]; !cli.IsProgrammed(live) {
					_ = setStatus(ctx, live, programmed(live, "")) // or with the next tick
				}
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
