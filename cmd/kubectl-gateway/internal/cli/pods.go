package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gateway/internal/resources"
)

// ProxyPods returns the proxy pods of a Gateway, or the one that is named. There is at least one.
func (c Clients) ProxyPods(ctx context.Context, namespace, gateway, pod string) ([]corev1.Pod, error) {
	if _, err := c.Gateways.AppV1().Gateways(namespace).Get(ctx, gateway, metav1.GetOptions{}); err != nil {
		return nil, fmt.Errorf("failed to get Gateway %s/%s: %w", namespace, gateway, err)
	}
	pods, err := c.Core.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: resources.PodSelector(gateway).String()})
	if err != nil {
		return nil, fmt.Errorf("failed to list Pods in %s: %w", namespace, err)
	}
	if pod == "" {
		if len(pods.Items) == 0 {
			return nil, fmt.Errorf("Gateway %s/%s has no proxy pods", namespace, gateway) //nolint:staticcheck // a kind's name
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

// CompletePods proposes the names of the proxy pods of the Gateway that the command line names.
func (o *Options) CompletePods(command *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	return o.completeOf(args, prefix, func(clients Clients, namespace string) (names []string) {
		pods, err := clients.ProxyPods(command.Context(), namespace, args[0], "")
		for i := 0; err == nil && i < len(pods); i++ {
			names = append(names, pods[i].Name)
		}
		return names
	})
}

// CompleteRoutes proposes the names of the routes of the Gateway that the command line names.
func (o *Options) CompleteRoutes(command *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	return o.completeOf(args, prefix, func(clients Clients, namespace string) (names []string) {
		gateway, err := clients.Gateways.AppV1().Gateways(namespace).Get(command.Context(), args[0], metav1.GetOptions{})
		if err != nil {
			return nil
		}
		for _, route := range gateway.Spec.Routes {
			names = append(names, string(route.Name))
		}
		for _, route := range gateway.Spec.TCPRoutes {
			names = append(names, string(route.Name))
		}
		for _, route := range gateway.Spec.TLSRoutes {
			names = append(names, string(route.Name))
		}
		return names
	})
}

// completeOf proposes those of the names that begin with the prefix; none without a Gateway on the command line, or a cluster.
func (o *Options) completeOf(args []string, prefix string, list func(clients Clients, namespace string) []string) ([]string, cobra.ShellCompDirective) {
	clients, err := o.Clients()
	if err != nil || len(args) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	namespace, err := o.Namespace()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, name := range list(clients, namespace) {
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// CompleteGateway proposes the name of one Gateway.
func (o *Options) CompleteGateway(command *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return o.CompleteGateways(command, args, prefix)
}
