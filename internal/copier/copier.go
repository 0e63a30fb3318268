// Package copier copies the Secrets that Gateways of the Gateway API may use in other namespaces.
//
// It decides by Gateways, ListenerSets and ReferenceGrants alone, with the code that the operator and the agents use. A
// copy belongs to the Gateway, carries a label, and is deleted with the grant, the Secret or the last reference. A
// Secret of that name that is no copy is left alone. A cluster need not have ListenerSets. While anything else is
// missing, nothing is copied or deleted, and the log names it.
package copier

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	routesclient "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"
	gatewayinformers "sigs.k8s.io/gateway-api/pkg/client/informers/externalversions"

	"gateway/internal/logging"
	source "gateway/internal/source/gatewayapi"
)

const (
	// LabelCopy is on every copy.
	LabelCopy = "app.example.com/copy"

	firstRetry = 100 * time.Millisecond
	lastRetry  = 5 * time.Second
	everything = "everything"
)

// Copier creates, updates and deletes copies.
type Copier struct {
	kube    kubernetes.Interface
	factory gatewayinformers.SharedInformerFactory
	queue   workqueue.TypedRateLimitingInterface[string]
	// logged is the state that was logged last.
	logged string

	mu sync.Mutex
	// informers are those of the resources that the cluster has.
	informers map[string]cache.SharedIndexInformer
}

// New returns a Copier. It does nothing before Run.
func New(kube kubernetes.Interface, routes routesclient.Interface) (*Copier, error) {
	secrets := informers.NewSharedInformerFactoryWithOptions(kube, 0, informers.WithTweakListOptions(func(list *metav1.ListOptions) {
		list.FieldSelector = fields.OneTermEqualSelector("type", string(corev1.SecretTypeTLS)).String()
	}))
	c := &Copier{
		kube: kube, factory: gatewayinformers.NewSharedInformerFactory(routes, 0),
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry)),
		informers: map[string]cache.SharedIndexInformer{
			resourceNamespaces: informers.NewSharedInformerFactory(kube, 0).Core().V1().Namespaces().Informer(),
			resourceSecrets:    secrets.Core().V1().Secrets().Informer(),
		},
	}
	for _, informer := range c.informers {
		if err := c.handle(informer); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// handle triggers a sync when objects change.
func (c *Copier) handle(informer cache.SharedIndexInformer) error {
	changed := func(any) { c.queue.Add(everything) }
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: changed, UpdateFunc: func(_, new any) { changed(new) }, DeleteFunc: changed,
	})
	if err != nil {
		return fmt.Errorf("failed to watch for changes: %w", err)
	}
	return nil
}

// Run works until ctx ends.
func (c *Copier) Run(ctx context.Context) {
	stop := context.AfterFunc(ctx, c.queue.ShutDown)
	defer stop()
	for _, resource := range []string{resourceNamespaces, resourceSecrets} {
		go c.informer(resource).RunWithContext(ctx)
	}
	go wait.UntilWithContext(ctx, c.discover, discoverInterval)
	for {
		key, shutdown := c.queue.Get()
		if shutdown {
			return
		}
		if err := c.sync(ctx); err == nil {
			c.queue.Forget(key)
		} else if ctx.Err() == nil {
			logging.Errorf("Trying again: %v", err)
			c.queue.AddRateLimited(key)
		}
		c.queue.Done(key)
	}
}

// sync creates and updates the copies that should exist, and deletes others. It does nothing before it knows all
// objects.
func (c *Copier) sync(ctx context.Context) error {
	if ready, _ := c.state(); !ready {
		return nil
	}
	objects := source.Objects{
		Classes: list[*gatewayv1.GatewayClass](c, resourceClasses), Gateways: list[*gatewayv1.Gateway](c, resourceGateways),
		ListenerSets: list[*gatewayv1.ListenerSet](c, resourceSets), Grants: list[*gatewayv1.ReferenceGrant](c, resourceGrants),
		Namespaces: map[string]labels.Set{},
	}
	for _, namespace := range list[*corev1.Namespace](c, resourceNamespaces) {
		objects.Namespaces[namespace.Name] = namespace.Labels
	}
	var errs []error
	wanted := map[types.NamespacedName]bool{}
	for _, copied := range source.Translate(objects).Copies() {
		original := c.secret(copied.From)
		if original == nil || original.Labels[LabelCopy] != "" {
			continue
		}
		wanted[types.NamespacedName{Namespace: copied.Gateway.Namespace, Name: copied.Name}] = true
		errs = append(errs, c.apply(ctx, &copied, original))
	}
	for _, secret := range list[*corev1.Secret](c, resourceSecrets) {
		if secret.Labels[LabelCopy] == "" || wanted[types.NamespacedName{Namespace: secret.Namespace, Name: secret.Name}] {
			continue
		}
		err := c.kube.CoreV1().Secrets(secret.Namespace).Delete(ctx, secret.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(secret.UID))})
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("failed to delete Secret %s/%s: %w", secret.Namespace, secret.Name, err))
		}
	}
	return errors.Join(errs...)
}

// list returns the objects of a resource, none if the cluster does not have it.
func list[T any](c *Copier, resource string) []T {
	informer := c.informer(resource)
	if informer == nil {
		return nil
	}
	var all []T
	for _, obj := range informer.GetStore().List() {
		all = append(all, obj.(T))
	}
	return all
}

// secret returns a Secret, nil if there is none.
func (c *Copier) secret(name types.NamespacedName) *corev1.Secret {
	obj, ok, _ := c.informer(resourceSecrets).GetStore().GetByKey(name.String()) // reading the cache never fails
	if !ok {
		return nil
	}
	return obj.(*corev1.Secret)
}

// apply makes a copy equal to its original.
func (c *Copier) apply(ctx context.Context, copied *source.Copy, original *corev1.Secret) error {
	name := types.NamespacedName{Namespace: copied.Gateway.Namespace, Name: copied.Name}
	client, before := c.kube.CoreV1().Secrets(name.Namespace), c.secret(name)
	desired := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: name.Name, Namespace: name.Namespace, Labels: map[string]string{LabelCopy: "true"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: gatewayv1.GroupVersion.String(), Kind: "Gateway", Name: copied.Gateway.Name, UID: copied.Gateway.UID,
			}},
		},
		Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{
			corev1.TLSCertKey: original.Data[corev1.TLSCertKey], corev1.TLSPrivateKeyKey: original.Data[corev1.TLSPrivateKeyKey],
		},
	}
	var err error
	switch {
	case before == nil:
		_, err = client.Create(ctx, desired, metav1.CreateOptions{})
	case before.Labels[LabelCopy] == "" || maps.EqualFunc(before.Data, desired.Data, func(a, b []byte) bool { return string(a) == string(b) }) &&
		equality.Semantic.DeepEqual(before.OwnerReferences, desired.OwnerReferences):
		return nil
	default:
		desired.ResourceVersion = before.ResourceVersion
		_, err = client.Update(ctx, desired, metav1.UpdateOptions{})
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("failed to copy Secret %s to %s: %w", copied.From, name, err)
	}
	return nil
}
