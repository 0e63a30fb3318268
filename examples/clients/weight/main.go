// Command weight changes the weight of a Service in all rules of a Gateway, as for a canary. Its test shows the fake
// clientset.
package main

import (
	"context"
	"flag"
	"fmt"
	"math"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	"example.com/clients/internal/program"

	appv1 "gateway/api/app/v1"
	"gateway/generated/app/clientset/versioned"
)

var (
	namespace = flag.String("namespace", metav1.NamespaceDefault, "the Gateway's `namespace`")
	name      = flag.String("gateway", "shop", "the Gateway's `name`")
	service   = flag.String("service", "shop", "the `Service`'s name")
	weight    = flag.Int("weight", 1, "its new weight, beside those of the other Services of a rule")
)

func main() { program.Main(run) }

func run(ctx context.Context, config *rest.Config) error {
	client, err := versioned.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("failed to make a client: %w", err)
	}
	wanted := int32(max(-1, min(*weight, math.MaxInt32))) // the API server says which it takes
	changed, err := setWeight(ctx, client, *namespace, *name, *service, wanted)
	if err != nil {
		return err
	}
	fmt.Println("backendRefs changed:", changed)
	return nil
}

// setWeight sets the weight of a Service wherever the Gateway names it, and returns how many places had
// another one. It takes the interface that the real clientset and the fake one both have.
func setWeight(ctx context.Context, client versioned.Interface, namespace, name, service string, weight int32) (changed int, err error) {
	gateways := client.AppV1().Gateways(namespace)
	// An Update carries the resourceVersion that was read, so it never undoes what others did meanwhile: it is a conflict,
	// and what they left is read and changed again.
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		gateway, err := gateways.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if changed = reweigh(gateway, service, weight); changed == 0 {
			return nil
		}
		_, err = gateways.Update(ctx, gateway, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("failed to set the weight of %s in Gateway %s/%s: %w", service, namespace, name, err)
	}
	return changed, nil
}

// reweigh changes the Gateway and returns in how many places.
func reweigh(gateway *appv1.Gateway, service string, weight int32) (changed int) {
	for r := range gateway.Spec.Routes {
		rules := gateway.Spec.Routes[r].Rules
		for i := range rules {
			for b := range rules[i].BackendRefs {
				ref := &rules[i].BackendRefs[b]
				if ref.Name == service && (ref.Weight == nil || *ref.Weight != weight) {
					ref.Weight = &weight
					changed++
				}
			}
		}
	}
	return changed
}
