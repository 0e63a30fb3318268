// Command create makes a Gateway with one listener, and adds a route to a Service, whoever has made the Gateway.
package main

import (
	"context"
	"flag"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"example.com/clients/internal/program"

	appv1 "gateway/api/app/v1"
	applyappv1 "gateway/generated/app/applyconfiguration/app/v1"
	"gateway/generated/app/clientset/versioned"
	typedappv1 "gateway/generated/app/clientset/versioned/typed/app/v1"
)

// fieldManager is the name under which this program owns fields.
const fieldManager = "example-create"

var (
	namespace = flag.String("namespace", metav1.NamespaceDefault, "the Gateway's `namespace`")
	name      = flag.String("gateway", "shop", "the Gateway's `name`")
	service   = flag.String("service", "shop", "the `Service` to send requests to, on port 80; the route has its name")
)

func main() { program.Main(run) }

func run(ctx context.Context, config *rest.Config) error {
	client, err := versioned.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("failed to make a client: %w", err)
	}
	gateways := client.AppV1().Gateways(*namespace)
	if err := create(ctx, gateways); err != nil {
		return err
	}
	return applyRoute(ctx, gateways)
}

// create makes the Gateway if there is none.
func create(ctx context.Context, gateways typedappv1.GatewayInterface) error {
	gateway := &appv1.Gateway{
		ObjectMeta: metav1.ObjectMeta{Name: *name},
		Spec:       appv1.GatewaySpec{Listeners: []appv1.Listener{{Name: "http", Port: 80, Protocol: appv1.ProtocolHTTP}}},
	}
	_, err := gateways.Create(ctx, gateway, metav1.CreateOptions{FieldManager: fieldManager})
	switch {
	case apierrors.IsAlreadyExists(err):
		fmt.Println("found", *name)
	case err != nil:
		return fmt.Errorf("failed to create Gateway %s/%s: %w", *namespace, *name, err)
	default:
		fmt.Println("created", *name)
	}
	return nil
}

// applyRoute makes the Gateway have the route. In an apply configuration, what is not set is not zero but left out: the
// API server leaves it to others, and removes what this field manager applied before and does not any more.
func applyRoute(ctx context.Context, gateways typedappv1.GatewayInterface) error {
	wanted := applyappv1.Gateway(*name, *namespace).WithSpec(applyappv1.GatewaySpec().
		WithRoutes(applyappv1.Route().WithName(appv1.Name(*service)).WithRules(applyappv1.RouteRule().
			WithBackendRefs(applyappv1.BackendRef().WithName(*service).WithPort(80)))))

	// Force: the route is this program's to decide. Without it, a route that somebody else has applied differently is a
	// conflict.
	applied, err := gateways.Apply(ctx, wanted, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	if err != nil {
		return fmt.Errorf("failed to apply route %s of Gateway %s/%s: %w", *service, *namespace, *name, err)
	}
	fmt.Printf("applied route %s: generation %d has %d routes\n", *service, applied.Generation, len(applied.Spec.Routes))

	// The part that this program owns is compared with the wanted one, so that nothing is sent if both are the same.
	owned, err := applyappv1.ExtractGateway(applied, fieldManager)
	if err != nil {
		return fmt.Errorf("failed to read who owns what in Gateway %s/%s: %w", *namespace, *name, err)
	}
	for _, route := range owned.Spec.Routes {
		fmt.Println("owned: route", *route.Name)
	}
	return nil
}
