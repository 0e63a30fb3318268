package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CompleteGateways proposes the names of the Gateways in the namespace that are not on the command line yet.
func (o *Options) CompleteGateways(command *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	return o.complete(prefix, func(clients Clients, namespace string) (names []string, err error) {
		list, err := clients.Gateways.AppV1().Gateways(namespace).List(command.Context(), completionOptions())
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			if name := list.Items[i].Name; !slices.Contains(args, name) {
				names = append(names, name)
			}
		}
		return names, nil
	})
}

// CompleteGateway proposes the name of one Gateway.
func (o *Options) CompleteGateway(command *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return o.CompleteGateways(command, args, prefix)
}

// CompletePods proposes the names of the proxy pods of the Gateway that the command line names.
func (o *Options) CompletePods(command *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return o.complete(prefix, func(clients Clients, namespace string) (names []string, err error) {
		pods, err := clients.ProxyPods(command.Context(), namespace, args[0], "")
		for i := range pods {
			names = append(names, pods[i].Name)
		}
		return names, err
	})
}

func (o *Options) completeNamespaces(command *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
	return o.complete(prefix, func(clients Clients, _ string) (names []string, err error) {
		list, err := clients.Core.Namespaces().List(command.Context(), completionOptions())
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
		return names, nil
	})
}

// complete proposes the names that begin with the prefix; none without a cluster.
func (o *Options) complete(prefix string, list func(clients Clients, namespace string) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	clients, namespace, err := o.Connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names, err := list(clients, namespace)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, prefix) }), cobra.ShellCompDirectiveNoFileComp
}

// completionOptions bound a list that somebody waits for with a finger on the key.
func completionOptions() metav1.ListOptions {
	seconds := int64(3)
	return metav1.ListOptions{ResourceVersion: "0", TimeoutSeconds: &seconds}
}
