package children

import (
	"context"
	"fmt"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	appv1 "gateway/api/app/v1"
	clientset "gateway/generated/app/clientset/versioned"
	"gateway/internal/proxypod"
)

// ListProxies lists the EndpointSlices of a Gateway's own Service and the reports of its proxies from the API server.
// The caches may lack objects that were written before the newest generation. A pod becomes ready for the first time
// only after it is an endpoint, has reported, and has then read a generation that it runs. So the lists contain each
// pod that is about to become ready with an older generation.
func ListProxies(
	ctx context.Context, kube kubernetes.Interface, gateways clientset.Interface, gateway *appv1.Gateway,
) ([]*discoveryv1.EndpointSlice, []*appv1.GatewayProxy, error) {
	labelled := metav1.ListOptions{LabelSelector: proxypod.PodSelector(gateway.Name).String()}
	listed, err := kube.DiscoveryV1().EndpointSlices(gateway.Namespace).List(ctx, labelled)
	if err != nil {
		return nil, nil, fmt.Errorf("failed to list EndpointSlices of Gateway %s/%s: %w", gateway.Namespace, gateway.Name, err)
	}
	reports, err := ListReports(ctx, gateways, gateway)
	if err != nil {
		return nil, nil, err
	}
	var slices []*discoveryv1.EndpointSlice
	for i := range listed.Items {
		if slice := &listed.Items[i]; IsOwn(slice) {
			slices = append(slices, slice)
		}
	}
	return slices, reports, nil
}

// ListReports lists the reports of a Gateway's proxies from the API server.
func ListReports(ctx context.Context, gateways clientset.Interface, gateway *appv1.Gateway) ([]*appv1.GatewayProxy, error) {
	labelled := metav1.ListOptions{LabelSelector: proxypod.PodSelector(gateway.Name).String()}
	reported, err := gateways.AppV1().GatewayProxies(gateway.Namespace).List(ctx, labelled)
	if err != nil {
		return nil, fmt.Errorf("failed to list GatewayProxies of Gateway %s/%s: %w", gateway.Namespace, gateway.Name, err)
	}
	var reports []*appv1.GatewayProxy
	for i := range reported.Items {
		reports = append(reports, &reported.Items[i])
	}
	return reports, nil
}
