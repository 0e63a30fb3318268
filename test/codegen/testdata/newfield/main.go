// Program newfield is compiled in a copy of the tree whose API has a new field, spec.keepAliveTimeout: it uses the field through
// everything that is generated.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	appv1 "gateway/api/app/v1"
	applyappv1 "gateway/generated/app/applyconfiguration/app/v1"
	"gateway/generated/app/clientset/versioned"
	typedappv1 "gateway/generated/app/clientset/versioned/typed/app/v1"
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
	if err := use(context.Background(), client.AppV1().Gateways("default")); err != nil {
		log.Fatal(err)
	}
}

// use writes the field with the typed client and again with an apply configuration, and prints what comes back.
func use(ctx context.Context, gateways typedappv1.GatewayInterface) error {
	created, err := gateways.Create(ctx, &appv1.Gateway{
		ObjectMeta: metav1.ObjectMeta{Name: "newfield", Namespace: "default"},
		Spec: appv1.GatewaySpec{
			Listeners:        []appv1.Listener{{Name: "http", Port: 80, Protocol: appv1.ProtocolHTTP}},
			KeepAliveTimeout: "2s",
		},
	}, metav1.CreateOptions{FieldManager: "typed"})
	if err != nil {
		return err
	}
	fmt.Println("created:", created.Spec.KeepAliveTimeout)

	applied, err := gateways.Apply(ctx, applyappv1.Gateway("newfield", "default").
		WithSpec(applyappv1.GatewaySpec().WithKeepAliveTimeout("3s")), metav1.ApplyOptions{FieldManager: "apply", Force: true})
	if err != nil {
		return err
	}
	fmt.Println("applied:", applied.Spec.KeepAliveTimeout)
	extracted, err := applyappv1.ExtractGateway(applied, "apply")
	if err != nil {
		return err
	}
	fmt.Println("extracted:", *extracted.Spec.KeepAliveTimeout)
	return nil
}
