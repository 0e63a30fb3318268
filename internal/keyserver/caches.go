package keyserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	routesclient "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"
	routesinformers "sigs.k8s.io/gateway-api/pkg/client/informers/externalversions"

	clientset "gateway/generated/app/clientset/versioned"
	gatewayinformers "gateway/generated/app/informers/externalversions"
	"gateway/internal/keystream"
	"gateway/internal/logging"
	"gateway/internal/operator/children"
)

const (
	// discoverInterval is how often the server looks for kinds of the Gateway API, and for what it may read no more.
	discoverInterval = 5 * time.Second
	// certainty is how long the API server must deny something until that counts: that the cluster has no ListenerSets,
	// or that the server may not read a namespace. An API server that has just started denies resources that it does not
	// know yet.
	certainty = 30 * time.Second

	// maxMissing is how many inputs a refusal names.
	maxMissing = 5

	resourceSecrets, resourceConfigMaps = "secrets", "configmaps"
)

// unused are the types of Secrets that no Gateway uses. Those of Helm are many and large.
var unused = []corev1.SecretType{
	"helm.sh/release.v1", corev1.SecretTypeServiceAccountToken, corev1.SecretTypeDockerConfigJson,
	corev1.SecretTypeDockercfg, corev1.SecretTypeBootstrapToken,
}

// input is a cache.
type input struct {
	cache.SharedIndexInformer
	// name is what it has. If that may be refused, place is what and where.
	name   string
	place  place
	synced cache.InformerSynced
}

// place is a kind of objects in a namespace.
type place struct{ kind, namespace string }

// caches fill a state.
type caches struct {
	state  *state
	kube   kubernetes.Interface
	routes routesinformers.SharedInformerFactory
	now    func() time.Time

	mu     sync.Mutex
	inputs []*input
	// optional are the inputs of the Gateway API by resource, if they are there, and absent is since when others are not.
	optional map[string]*input
	absent   map[string]time.Time
	// refused has since when the API server refuses to list something.
	refused map[place]time.Time
	// ends end the watches of single namespaces, and doubts are of those that may have to end.
	ends   map[place]func()
	doubts map[place]*doubt
}

// resources are the resources of the Gateway API that a cluster need not have.
var resources = []string{"gateways", "listenersets", "referencegrants"}

// newCaches returns caches for the Secrets and ConfigMaps of some namespaces, of all if there are none.
func newCaches(
	state *state, kube kubernetes.Interface, own clientset.Interface, routes routesclient.Interface, namespaces []string,
	now func() time.Time,
) (*caches, error) {
	c := &caches{
		state: state, kube: kube, routes: routesinformers.NewSharedInformerFactory(routes, 0), now: now,
		optional: map[string]*input{}, absent: map[string]time.Time{}, refused: map[place]time.Time{},
		ends: map[place]func(){}, doubts: map[place]*doubt{},
	}
	rbac := informers.NewSharedInformerFactory(kube, 0).Rbac().V1()
	gateways := gatewayinformers.NewSharedInformerFactory(own, 0).App().V1()
	err := errors.Join(
		watch(c, "gateways.app.example.com", gateways.Gateways().Informer(), children.Strip, state.setOwn),
		watch(c, "gatewayattachments", gateways.GatewayAttachments().Informer(), children.Strip, state.setAttachment),
		watch(c, "namespaces", informers.NewSharedInformerFactory(kube, 0).Core().V1().Namespaces().Informer(), children.Strip,
			func(namespace *corev1.Namespace, gone bool) {
				state.setNamespace(namespace.Name, labels.Set(namespace.Labels), gone)
			}),
		watch(c, "rolebindings", rbac.RoleBindings().Informer(), stripBinding,
			func(b *rbacv1.RoleBinding, gone bool) { state.setBinding(b, b.RoleRef, b.Subjects, gone) }),
		watch(c, "clusterrolebindings", rbac.ClusterRoleBindings().Informer(), stripBinding,
			func(b *rbacv1.ClusterRoleBinding, gone bool) { state.setBinding(b, b.RoleRef, b.Subjects, gone) }),
		c.doubtBy(rbac.RoleBindings().Informer()), c.doubtBy(rbac.ClusterRoleBindings().Informer()),
	)
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	for _, namespace := range namespaces {
		err = errors.Join(err, c.watchObjects(namespace))
	}
	return c, err
}

// watchObjects watches the Secrets and ConfigMaps of a namespace.
func (c *caches) watchObjects(namespace string) error {
	var types []fields.Selector
	for _, one := range unused {
		types = append(types, fields.OneTermNotEqualSelector("type", string(one)))
	}
	core := c.kube.CoreV1()
	secrets := requests(c, place{keystream.KindSecret, namespace}, core.Secrets(namespace), fields.AndSelectors(types...))
	configMaps := requests(c, place{keystream.KindConfigMap, namespace}, core.ConfigMaps(namespace), fields.Everything())
	err := errors.Join(
		watch(c, resourceSecrets, cache.NewSharedIndexInformer(secrets, new(corev1.Secret), 0, nil), strip, c.setSecret),
		watch(c, resourceConfigMaps, cache.NewSharedIndexInformer(configMaps, new(corev1.ConfigMap), 0, nil), strip, c.setConfigMap),
	)
	if namespace == metav1.NamespaceAll || err != nil {
		return err
	}
	for i, kind := range []string{keystream.KindSecret, keystream.KindConfigMap} {
		input, in := c.inputs[len(c.inputs)-2+i], place{kind, namespace}
		input.place = in
		err = errors.Join(err, input.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
			if !c.refuse(in, err) {
				cache.DefaultWatchErrorHandler(ctx, r, err)
			}
		}))
	}
	return err
}

func (c *caches) setSecret(secret *corev1.Secret, gone bool) {
	c.state.setObject(newObject(secret), gone)
	c.accept(place{keystream.KindSecret, secret.Namespace})
}

func (c *caches) setConfigMap(configMap *corev1.ConfigMap, gone bool) {
	c.state.setObject(newObject(configMap), gone)
	c.accept(place{keystream.KindConfigMap, configMap.Namespace})
}

// watch adds an input that has set called for each change.
func watch[T any](
	c *caches, name string, informer cache.SharedIndexInformer, keep cache.TransformFunc, set func(object T, gone bool),
) error {
	changed := func(obj any, gone bool) {
		if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = last.Obj
		}
		if object, ok := obj.(T); ok {
			set(object, gone)
		}
	}
	if err := informer.SetTransform(keep); err != nil {
		return fmt.Errorf("failed to set the transform of the cache of %s: %w", name, err)
	}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { changed(obj, false) }, UpdateFunc: func(_, obj any) { changed(obj, false) },
		DeleteFunc: func(obj any) { changed(obj, true) },
	})
	if err != nil {
		return fmt.Errorf("failed to watch %s: %w", name, err)
	}
	c.inputs = append(c.inputs, &input{informer, name, place{}, registration.HasSynced})
	return nil
}

// run fills the caches until ctx ends.
func (c *caches) run(ctx context.Context) {
	c.mu.Lock()
	for _, input := range c.inputs {
		go input.RunWithContext(ctx)
	}
	c.mu.Unlock()
	go wait.UntilWithContext(ctx, func(context.Context) {
		c.ask()
		c.withdraw()
	}, doubtInterval)
	wait.UntilWithContext(ctx, c.discover, discoverInterval)
}

// discover starts the inputs of the Gateway API resources that the cluster has by now.
func (c *caches) discover(ctx context.Context) {
	list, err := c.kube.Discovery().ServerResourcesForGroupVersion(gatewayv1.GroupVersion.String())
	if err != nil && !apierrors.IsNotFound(err) {
		if ctx.Err() == nil {
			logging.Warningf("Trying again: failed to look for the Gateway API: %v", err)
		}
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range resources {
		isServed := err == nil && slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == name })
		switch since, known := c.absent[name]; {
		case c.optional[name] != nil:
		case isServed:
			delete(c.absent, name)
			if err := c.start(ctx, name); err != nil {
				logging.Errorf("Not looking at %s: %v", name, err)
			}
		case !known || since.After(c.now()):
			c.absent[name] = c.now()
		}
	}
}

// start starts the input of a resource of the Gateway API.
func (c *caches) start(ctx context.Context, name string) error {
	generic, err := c.routes.ForResource(schema.GroupVersion(gatewayv1.GroupVersion).WithResource(name))
	if err != nil {
		return err
	}
	switch informer := generic.Informer(); name {
	case "gateways":
		err = watch(c, name, informer, children.Strip, c.state.setGatewayAPI)
	case "listenersets":
		err = watch(c, name, informer, children.Strip, c.state.setListenerSet)
	default:
		err = watch(c, name, informer, children.Strip, c.state.setGrant)
	}
	if err == nil {
		c.optional[name] = c.inputs[len(c.inputs)-1]
		go c.optional[name].RunWithContext(ctx)
	}
	return err
}

// ready returns an error while something is missing to answer about objects.
func (c *caches) ready() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var missing []string
	for _, name := range resources {
		if since, ok := c.absent[name]; c.optional[name] == nil && (!ok || c.now().Sub(since) < certainty) {
			missing = append(missing, name+" of the Gateway API")
		}
	}
	for _, input := range c.inputs {
		if !input.synced() && !c.isRefused(input.place) {
			missing = append(missing, strings.TrimSpace(input.name+" "+input.place.namespace))
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return fmt.Errorf("the API server has not listed %s", strings.Join(missing[:min(len(missing), maxMissing)], ", "))
	}
	return nil
}
