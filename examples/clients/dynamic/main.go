// Command dynamic does what create and watch do, with the dynamic client: for objects whose Go types a program does not
// have, or does not know before it runs. It makes a Gateway, adds a route, and prints what changes until it is
// interrupted.
package main

import (
	"context"
	"flag"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"example.com/clients/internal/program"
)

const fieldManager = "example-dynamic"

var (
	namespace = flag.String("namespace", metav1.NamespaceDefault, "the Gateway's `namespace`")
	name      = flag.String("gateway", "shop", "the Gateway's `name`")

	// What is asked for by URL: the plural, in lower case. meta.RESTMapper finds it for a kind that is known only when the
	// program runs.
	resource = schema.GroupVersionResource{Group: "app.example.com", Version: "v1", Resource: "gateways"}
)

func main() { program.Main(run) }

func run(ctx context.Context, config *rest.Config) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("failed to make a client: %w", err)
	}
	gateways := client.Resource(resource).Namespace(*namespace)

	created := gateway(map[string]any{"listeners": []any{map[string]any{"name": "http", "port": int64(80), "protocol": "HTTP"}}})
	_, err = gateways.Create(ctx, created, metav1.CreateOptions{FieldManager: fieldManager})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("failed to create Gateway %s/%s: %w", *namespace, *name, err)
	}

	// An apply configuration is an object with nothing in it but what it is about.
	route := gateway(map[string]any{"routes": []any{map[string]any{"name": "dynamic", "rules": []any{
		map[string]any{"backendRefs": []any{map[string]any{"name": "shop", "port": int64(80)}}},
	}}}})
	applied, err := gateways.Apply(ctx, *name, route, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	if err != nil {
		return fmt.Errorf("failed to apply a route of Gateway %s/%s: %w", *namespace, *name, err)
	}
	fmt.Println("applied", describe(applied))
	return watch(ctx, client)
}

// gateway is the object with the spec. Numbers in it have to be int64 or float64.
func gateway(spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": resource.GroupVersion().String(), "kind": "Gateway", "metadata": map[string]any{"name": *name}, "spec": spec,
	}}
}

// watch prints what changes.
func watch(ctx context.Context, client dynamic.Interface) error {
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, 0, *namespace, nil)
	informer := factory.ForResource(resource).Informer()
	// There are no handlers for its type, as the generated informers have: what it hands out has to be asserted.
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { fmt.Println("found", describe(obj.(*unstructured.Unstructured))) },
		UpdateFunc: func(old, updated any) {
			before, after := old.(*unstructured.Unstructured), updated.(*unstructured.Unstructured)
			if before.GetResourceVersion() != after.GetResourceVersion() {
				fmt.Println("changed", describe(after))
			}
		},
		DeleteFunc: func(obj any) {
			// In place of a Gateway that went while the watch was broken comes a cache.DeletedFinalStateUnknown, with its key.
			if gone, err := cache.DeletionHandlingObjectToName(obj); err == nil {
				fmt.Println("deleted", gone)
			}
		},
	}); err != nil {
		return fmt.Errorf("failed to watch Gateways: %w", err)
	}
	factory.Start(ctx.Done())
	<-ctx.Done()
	factory.Shutdown() // waits for the informers to end
	return nil
}

// describe is a Gateway in one line. A field that is not there is no error, but empty.
func describe(gateway *unstructured.Unstructured) string {
	listeners, _, _ := unstructured.NestedSlice(gateway.Object, "spec", "listeners")
	routes, _, _ := unstructured.NestedSlice(gateway.Object, "spec", "routes")
	return fmt.Sprintf("%s: %d listeners, %d routes, generation %d",
		cache.MetaObjectToName(gateway), len(listeners), len(routes), gateway.GetGeneration())
}
