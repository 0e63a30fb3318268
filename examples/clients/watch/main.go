// Command watch keeps all Gateways in memory, prints them, and then what changes, until it is interrupted.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"example.com/clients/internal/program"

	appv1 "gateway/api/app/v1"
	"gateway/generated/app/clientset/versioned"
	"gateway/generated/app/informers/externalversions"
	gatewayinformers "gateway/generated/app/informers/externalversions/app/v1"
	gatewaylisters "gateway/generated/app/listers/app/v1"
)

var namespace = flag.String("namespace", "", "the only `namespace` to watch. If empty: all of them")

func main() { program.Main(run) }

func run(ctx context.Context, config *rest.Config) error {
	client, err := versioned.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("failed to make a client: %w", err)
	}
	// An informer tries for ever, and only the log says why it has to. Who asks first can say at once what is wrong.
	if _, err := client.AppV1().Gateways(*namespace).List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
		return fmt.Errorf("failed to list Gateways: %w", err)
	}

	// All parts of a program that take their informers from one factory share one watch and one cache per kind.
	factory := externalversions.NewSharedInformerFactoryWithOptions(client, 0, externalversions.WithNamespace(*namespace))
	gateways := factory.App().V1().Gateways()
	if _, err := gateways.TypedInformer().AddTypedEventHandler(changes); err != nil {
		return fmt.Errorf("failed to watch Gateways: %w", err)
	}

	defer factory.Shutdown() // waits for the informers to end,
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // which this makes them do: the last deferred call is the first to run
	factory.StartWithContext(ctx)
	if factory.WaitForCacheSyncWithContext(ctx).Err != nil {
		return nil // interrupted: nothing else ends the wait
	}
	if err := printAll(gateways.Lister()); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// printAll prints what is in the cache. That takes no request.
func printAll(lister gatewaylisters.GatewayLister) error {
	gateways, err := lister.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("failed to read Gateways from the cache: %w", err)
	}
	slices.SortFunc(gateways, func(a, b *appv1.Gateway) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for _, gateway := range gateways {
		fmt.Println("found", describe(gateway))
	}
	return nil
}

// changes prints what happens to Gateways. What handlers get is the cache's own copy: never modify it.
var changes = gatewayinformers.GatewayDetailedHandlerFuncs{
	AddFunc: func(gateway *appv1.Gateway, isInInitialList bool) {
		if !isInInitialList { // else printAll has it
			fmt.Println("added", describe(gateway))
		}
	},
	UpdateFunc: func(old, updated *appv1.Gateway) {
		if old.ResourceVersion != updated.ResourceVersion { // else it was only listed again
			fmt.Println("changed", describe(updated))
		}
	},
	DeleteFunc: func(deleted gatewayinformers.DeletedGateway) {
		// If the watch was broken at that time, only the name is certain: deleted.OptionalObj may be old, or nil.
		fmt.Println("deleted", deleted.GetObjectName())
	},
}

// describe is a Gateway in one line.
func describe(gateway *appv1.Gateway) string {
	live := "not programmed"
	if condition := meta.FindStatusCondition(gateway.Status.Conditions, appv1.ConditionProgrammed); condition != nil &&
		condition.Status == metav1.ConditionTrue && condition.ObservedGeneration == gateway.Generation {
		live = "programmed"
	}
	return fmt.Sprintf("%s: %d listeners, %d routes, generation %d is %s",
		cache.MetaObjectToName(gateway), len(gateway.Spec.Listeners), len(gateway.Spec.Routes), gateway.Generation, live)
}
