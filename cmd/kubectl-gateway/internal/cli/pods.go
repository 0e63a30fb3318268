package cli

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gateway/internal/proxypod"
)

// ProxyPods returns the proxy pods of a Gateway, or the one that is named. There is at least one.
func (c Clients) ProxyPods(ctx context.Context, namespace, gateway, pod string) ([]corev1.Pod, error) {
	if _, err := c.Gateway(ctx, namespace, gateway); err != nil {
		return nil, err
	}
	pods, err := c.Core.Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: proxypod.PodSelector(gateway).String()})
	if err != nil {
		return nil, fmt.Errorf("failed to list Pods in %s: %w", namespace, err)
	}
	if pod == "" {
		if len(pods.Items) == 0 {
			return nil, fmt.Errorf("Gateway %s/%s has no proxy pods", namespace, gateway)
		}
		return pods.Items, nil
	}
	var names []string
	for _, item := range pods.Items {
		if item.Name == pod {
			return []corev1.Pod{item}, nil
		}
		names = append(names, item.Name)
	}
	return nil, fmt.Errorf("there is no proxy pod %s of Gateway %s/%s, but %s", pod, namespace, gateway, strings.Join(names, ", "))
}
