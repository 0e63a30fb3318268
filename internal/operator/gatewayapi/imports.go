package gatewayapi

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"gateway/internal/multicluster"
	"gateway/internal/operator/children"
)

// NewImports returns an informer of ServiceImports, which are Services in its cache.
func NewImports(config *rest.Config) (cache.SharedIndexInformer, error) {
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("failed to make a client for ServiceImports: %w", err)
	}
	client, err := multicluster.NewForConfigAndClient(config, transport)
	if err != nil {
		return nil, err
	}
	all := client.ServiceImports("")
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return all.List(ctx, options)
		},
		WatchFuncWithContext: all.Watch,
	}, &corev1.Service{}, 0, cache.Indexers{})
	if err := informer.SetTransform(children.Strip); err != nil {
		return nil, fmt.Errorf("failed to strip ServiceImports: %w", err)
	}
	return informer, nil
}
