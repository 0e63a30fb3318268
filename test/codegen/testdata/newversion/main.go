// Program newversion is compiled in a copy of the tree whose API has a version v2: it reads a Gateway that was written as v1, and
// changes it.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	applyappv2 "gateway/generated/app/applyconfiguration/app/v2"
	"gateway/generated/app/clientset/versioned"
)

func main() {
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	client, err := versioned.NewForConfig(config)
	if err != nil {
		log.Fatal(err)
	}
	gateways := client.AppV2().Gateways("default")
	read, err := gateways.Get(context.Background(), "old", metav1.GetOptions{})
	if err != nil {
		log.Fatal(err)
	}
	changed, err := gateways.Apply(context.Background(), applyappv2.Gateway("old", "default").
		WithSpec(applyappv2.GatewaySpec().WithPods(applyappv2.PodsSpec().WithDrainTimeout("40s"))),
		metav1.ApplyOptions{FieldManager: "newversion", Force: true})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(read.Spec.Pods.DrainTimeout, changed.Spec.Pods.DrainTimeout)
}
