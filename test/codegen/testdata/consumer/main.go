// Program consumer is what somebody else's tool looks like that vendors the generated clients: it lists Gateways and
// prints what changes, until it is killed.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	appv1 "gateway/api/app/v1"
	"gateway/generated/app/clientset/versioned"
	"gateway/generated/app/informers/externalversions"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	if err != nil {
		return err
	}
	client, err := versioned.NewForConfig(config)
	if err != nil {
		return err
	}
	list, err := client.AppV1().Gateways("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, gateway := range list.Items {
		fmt.Println("listed", gateway.Name)
	}

	factory := externalversions.NewSharedInformerFactory(client, 0)
	gateways := factory.App().V1().Gateways()
	if _, err := gateways.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { fmt.Println("added", obj.(*appv1.Gateway).Name) },
		UpdateFunc: func(_, obj any) {
			gateway := obj.(*appv1.Gateway)
			fmt.Println("updated", gateway.Name, "to", *gateway.Spec.Replicas)
		},
		DeleteFunc: func(obj any) { fmt.Println("deleted", obj.(*appv1.Gateway).Name) },
	}); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	gateway, err := gateways.Lister().Gateways("default").Get("vendored")
	if err != nil {
		return err
	}
	fmt.Println("cached", gateway.Name)
	select {}
}
