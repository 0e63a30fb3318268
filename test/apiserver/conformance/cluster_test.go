package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"gateway/internal/certificates"
	"gateway/internal/source/gatewayapi"
)

// cluster is in place of the operator, the agents and the kubelets.
type cluster struct {
	t *testing.T
	client.Client
	seen    client.Reader
	pods    map[string]*pod
	proxies map[gatewayapi.Parent]*proxy
	echo    string
	// addresses counts the addresses that were given away.
	addresses int
}

// startCluster makes the class and starts the loop, which ends with the test.
func startCluster(t *testing.T, c client.Client, scheme *runtime.Scheme) {
	t.Helper()
	gatewayClass := &gatewayv1.GatewayClass{ObjectMeta: metav1.ObjectMeta{Name: class}, Spec: gatewayv1.GatewayClassSpec{ControllerName: gatewayapi.ControllerName}}
	if err := c.Create(t.Context(), gatewayClass); err != nil {
		t.Fatal(err)
	}
	informers, err := cache.New(server.Admin, cache.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { _ = informers.Start(ctx) }()
	s := &cluster{
		t: t, Client: c, seen: informers, pods: map[string]*pod{}, proxies: map[gatewayapi.Parent]*proxy{},
		echo: buildEcho(t),
	}
	t.Cleanup(func() {
		cancel()
		<-done
		s.stopPods()
	})
	go func() {
		defer close(done)
		last := ""
		for ctx.Err() == nil {
			state, err := s.read(ctx)
			if err == nil && state.version != last {
				if err = s.sync(ctx, state); err == nil {
					last = state.version
				}
			}
			if err != nil && !apierrors.IsConflict(err) && !errors.Is(err, context.Canceled) {
				t.Logf("the loop: %v", err)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}()
}

// state is what was seen of the cluster.
type state struct {
	gatewayapi.Objects
	version    string
	services   map[types.NamespacedName]*corev1.Service
	secrets    map[types.NamespacedName]*corev1.Secret
	configMaps map[types.NamespacedName]*corev1.ConfigMap
}

// list returns all objects of a list's kind, and adds to the version.
func list[T any, P interface {
	*T
	client.Object
}](ctx context.Context, s *cluster, state *state, into client.ObjectList, items func() []T) ([]P, error) {
	if err := s.seen.List(ctx, into); err != nil {
		return nil, err
	}
	var all []P
	for _, item := range items() {
		object := P(&item)
		state.version += fmt.Sprintf("%s/%s ", object.GetUID(), object.GetResourceVersion())
		all = append(all, object)
	}
	return all, nil
}

// read returns what the cluster has.
func (s *cluster) read(ctx context.Context) (*state, error) {
	state := &state{
		services: map[types.NamespacedName]*corev1.Service{}, secrets: map[types.NamespacedName]*corev1.Secret{},
		configMaps: map[types.NamespacedName]*corev1.ConfigMap{},
	}
	state.Namespaces = map[string]labels.Set{}
	var errs [16]error
	var classes gatewayv1.GatewayClassList
	state.Classes, errs[0] = list(ctx, s, state, &classes, func() []gatewayv1.GatewayClass { return classes.Items })
	var gateways gatewayv1.GatewayList
	state.Gateways, errs[1] = list(ctx, s, state, &gateways, func() []gatewayv1.Gateway { return gateways.Items })
	var sets gatewayv1.ListenerSetList
	state.ListenerSets, errs[2] = list(ctx, s, state, &sets, func() []gatewayv1.ListenerSet { return sets.Items })
	var https gatewayv1.HTTPRouteList
	state.HTTPRoutes, errs[3] = list(ctx, s, state, &https, func() []gatewayv1.HTTPRoute { return https.Items })
	var grpcs gatewayv1.GRPCRouteList
	state.GRPCRoutes, errs[4] = list(ctx, s, state, &grpcs, func() []gatewayv1.GRPCRoute { return grpcs.Items })
	var tlss gatewayv1.TLSRouteList
	state.TLSRoutes, errs[5] = list(ctx, s, state, &tlss, func() []gatewayv1.TLSRoute { return tlss.Items })
	var tcps gatewayv1.TCPRouteList
	state.TCPRoutes, errs[6] = list(ctx, s, state, &tcps, func() []gatewayv1.TCPRoute { return tcps.Items })
	var udps gatewayv1.UDPRouteList
	state.UDPRoutes, errs[7] = list(ctx, s, state, &udps, func() []gatewayv1.UDPRoute { return udps.Items })
	var policies gatewayv1.BackendTLSPolicyList
	state.Policies, errs[8] = list(ctx, s, state, &policies, func() []gatewayv1.BackendTLSPolicy { return policies.Items })
	var grants gatewayv1.ReferenceGrantList
	state.Grants, errs[9] = list(ctx, s, state, &grants, func() []gatewayv1.ReferenceGrant { return grants.Items })
	var namespaces corev1.NamespaceList
	found, err := list(ctx, s, state, &namespaces, func() []corev1.Namespace { return namespaces.Items })
	errs[10] = err
	for _, namespace := range found {
		state.Namespaces[namespace.Name] = namespace.Labels
	}
	var services corev1.ServiceList
	foundServices, err := list(ctx, s, state, &services, func() []corev1.Service { return services.Items })
	errs[11] = err
	for _, service := range foundServices {
		state.services[client.ObjectKeyFromObject(service)] = service
	}
	var secrets corev1.SecretList
	foundSecrets, err := list(ctx, s, state, &secrets, func() []corev1.Secret { return secrets.Items })
	errs[12] = err
	for _, secret := range foundSecrets {
		state.secrets[client.ObjectKeyFromObject(secret)] = secret
	}
	var configMaps corev1.ConfigMapList
	foundConfigMaps, err := list(ctx, s, state, &configMaps, func() []corev1.ConfigMap { return configMaps.Items })
	errs[13] = err
	for _, configMap := range foundConfigMaps {
		state.configMaps[client.ObjectKeyFromObject(configMap)] = configMap
	}
	errs[14] = s.readPods(ctx, state)
	state.addFunctions()
	return state, errors.Join(errs[:]...)
}

// addFunctions lets the source ask for what it does not get whole.
func (s *state) addFunctions() {
	s.Service = func(namespace, name string) (*corev1.Service, bool) {
		return s.services[types.NamespacedName{Namespace: namespace, Name: name}], true
	}
	s.Certificate = func(namespace, name string) string {
		secret := s.secrets[types.NamespacedName{Namespace: namespace, Name: name}]
		if secret == nil {
			return "does not exist"
		}
		_, problem := certificates.Join(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
		return strings.ReplaceAll(problem, "%s", "it")
	}
	s.Authority = func(namespace, name string) string {
		configMap := s.configMaps[types.NamespacedName{Namespace: namespace, Name: name}]
		if configMap == nil {
			return "does not exist"
		}
		_, problem := certificates.ParseChain([]byte(configMap.Data[certificates.AuthorityFile]), certificates.AuthorityFile)
		return strings.ReplaceAll(problem, "%s", "it")
	}
}
