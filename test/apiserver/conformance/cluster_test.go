package conformance

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/certificates"
	"gateway/internal/must"
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
	logs    *podLogs
	// addresses counts the addresses that were given away.
	addresses int
}

// startCluster makes the class and starts the loop, which ends with the test.
func startCluster(t *testing.T, c client.Client, scheme *runtime.Scheme, logs *podLogs) {
	t.Helper()
	gatewayClass := &gatewayv1.GatewayClass{ObjectMeta: metav1.ObjectMeta{Name: class}, Spec: gatewayv1.GatewayClassSpec{ControllerName: gatewayapi.ControllerName}}
	must.Do(t, c.Create(t.Context(), gatewayClass))
	informers := must.Get(cache.New(server.Admin, cache.Options{Scheme: scheme}))(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { _ = informers.Start(ctx) }()
	s := &cluster{
		t: t, Client: c, seen: informers, pods: map[string]*pod{}, proxies: map[gatewayapi.Parent]*proxy{},
		echo: buildEcho(t), logs: logs,
	}
	t.Cleanup(func() {
		cancel()
		<-done
		s.stopPods()
	})
	go func() {
		defer close(done)
		wait.UntilWithContext(ctx, func(ctx context.Context) {
			state, err := s.read(ctx)
			if err == nil {
				err = s.sync(ctx, state)
			}
			if err != nil && !apierrors.IsConflict(err) && !errors.Is(err, context.Canceled) {
				t.Logf("the loop: %v", err)
			}
		}, 50*time.Millisecond)
	}()
}

// state is what was seen of the cluster.
type state struct {
	gatewayapi.Objects
	services   map[types.NamespacedName]*corev1.Service
	secrets    map[types.NamespacedName]*corev1.Secret
	configMaps map[types.NamespacedName]*corev1.ConfigMap
}

// list reads all objects of a list's kind.
func list[P client.Object](ctx context.Context, s *cluster, kind client.ObjectList, to *[]P) error {
	if err := s.seen.List(ctx, kind); err != nil {
		return err
	}
	return meta.EachListItem(kind, func(item runtime.Object) error {
		*to = append(*to, item.(P))
		return nil
	})
}

func byKey[P client.Object](objects []P) map[types.NamespacedName]P {
	all := map[types.NamespacedName]P{}
	for _, object := range objects {
		all[client.ObjectKeyFromObject(object)] = object
	}
	return all
}

// read returns what the cluster has.
func (s *cluster) read(ctx context.Context) (*state, error) {
	state := &state{}
	var namespaces []*corev1.Namespace
	var services []*corev1.Service
	var secrets []*corev1.Secret
	var configMaps []*corev1.ConfigMap
	err := errors.Join(
		list(ctx, s, &gatewayv1.GatewayClassList{}, &state.Classes),
		list(ctx, s, &gatewayv1.GatewayList{}, &state.Gateways),
		list(ctx, s, &gatewayv1.ListenerSetList{}, &state.ListenerSets),
		list(ctx, s, &gatewayv1.HTTPRouteList{}, &state.HTTPRoutes),
		list(ctx, s, &gatewayv1.GRPCRouteList{}, &state.GRPCRoutes),
		list(ctx, s, &gatewayv1.TLSRouteList{}, &state.TLSRoutes),
		list(ctx, s, &gatewayv1.TCPRouteList{}, &state.TCPRoutes),
		list(ctx, s, &gatewayv1.UDPRouteList{}, &state.UDPRoutes),
		list(ctx, s, &gatewayv1.BackendTLSPolicyList{}, &state.Policies),
		list(ctx, s, &gatewayv1.ReferenceGrantList{}, &state.Grants),
		list(ctx, s, &corev1.NamespaceList{}, &namespaces),
		list(ctx, s, &corev1.ServiceList{}, &services),
		list(ctx, s, &corev1.SecretList{}, &secrets),
		list(ctx, s, &corev1.ConfigMapList{}, &configMaps),
	)
	if err != nil {
		return nil, err
	}
	state.Namespaces = map[string]labels.Set{}
	for _, namespace := range namespaces {
		state.Namespaces[namespace.Name] = namespace.Labels
	}
	state.services, state.secrets, state.configMaps = byKey(services), byKey(secrets), byKey(configMaps)
	state.addFunctions()
	return state, s.startPods(ctx, state)
}

// addFunctions lets the source ask for what it does not get whole.
func (s *state) addFunctions() {
	s.Service = func(namespace, name string) (*corev1.Service, bool) {
		return s.services[types.NamespacedName{Namespace: namespace, Name: name}], true
	}
	s.Reported = func(of gatewayapi.Subject) gatewayapi.Report {
		problem := ""
		name := types.NamespacedName{Namespace: of.Namespace, Name: of.Name}
		secret, configMap := s.secrets[name], s.configMaps[name]
		switch {
		case of.Reason == appv1.ProblemInvalidCertificateRef && secret != nil:
			_, problem = certificates.Join(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
		case of.Reason == appv1.ProblemInvalidCACertificateRef && configMap != nil:
			_, problem = certificates.ParseChain([]byte(configMap.Data[certificates.AuthorityFile]), certificates.AuthorityFile)
		case of.Reason == appv1.ProblemInvalidCertificateRef || of.Reason == appv1.ProblemInvalidCACertificateRef:
			problem = "%s does not exist"
		}
		return gatewayapi.Report{Problem: strings.ReplaceAll(problem, "%s", "it")}
	}
}
