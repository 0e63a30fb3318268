// Command queue prints every Pod and every Gateway, and each again when it changes, by a work queue as controllers have
// it: an informer per kind feeds names into the queue, workers take them out and look in the caches what is to be done.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"example.com/clients/internal/program"

	"gateway/generated/app/clientset/versioned"
	"gateway/generated/app/informers/externalversions"
)

var (
	namespace = flag.String("namespace", "", "the only `namespace` to watch. If empty: all of them")
	workers   = flag.Int("workers", 2, "`number` of objects to work on at the same time")
)

func main() { program.Main(run) }

func run(ctx context.Context, config *rest.Config) error {
	kubeClient, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("failed to make a client for Kubernetes: %w", err)
	}
	client, err := versioned.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("failed to make a client for Gateways: %w", err)
	}
	if err := check(ctx, kubeClient, client); err != nil {
		return err
	}

	kubeFactory := informers.NewSharedInformerFactoryWithOptions(kubeClient, 0,
		informers.WithNamespace(*namespace), informers.WithTransform(strip))
	factory := externalversions.NewSharedInformerFactoryWithOptions(client, 0,
		externalversions.WithNamespace(*namespace), externalversions.WithTransform(strip))
	c := newController(os.Stdout)
	if err := c.watch("Pod", kubeFactory.Core().V1().Pods().Informer()); err != nil {
		return err
	}
	if err := c.watch("Gateway", factory.App().V1().Gateways().Informer()); err != nil {
		return err
	}

	kubeFactory.StartWithContext(ctx)
	factory.StartWithContext(ctx)
	c.run(ctx, *workers)
	kubeFactory.Shutdown() // waits for the informers, which ctx has ended
	factory.Shutdown()
	return nil
}

// check says what an informer would try for ever without: a server, both kinds, and the permission to list them.
func check(ctx context.Context, kubeClient kubernetes.Interface, client versioned.Interface) error {
	if _, err := kubeClient.CoreV1().Pods(*namespace).List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
		return fmt.Errorf("failed to list Pods: %w", err)
	}
	if _, err := client.AppV1().Gateways(*namespace).List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
		return fmt.Errorf("failed to list Gateways: %w", err)
	}
	return nil
}

// strip is called before an object is kept in a cache, and takes out what nothing here reads but can be half of it.
func strip(obj any) (any, error) {
	if object, ok := obj.(metav1.Object); ok { // else it is a tombstone
		object.SetManagedFields(nil)
	}
	return obj, nil
}
