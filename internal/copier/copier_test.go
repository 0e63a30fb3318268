package copier

import (
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	routesfake "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned/fake"

	source "gateway/internal/source/gatewayapi"
)

// shop is a Gateway with certificates of another namespace. A grant allows one of them.
const shop = `
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: app}
spec: {controllerName: app.example.com/gateway}
---
apiVersion: v1
kind: Namespace
metadata: {name: team, labels: {kubernetes.io/metadata.name: team}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {namespace: web, name: shop, uid: uid-of-shop}
spec:
  gatewayClassName: app
  allowedListeners: {namespaces: {from: All}}
  listeners:
    - name: https
      port: 443
      protocol: HTTPS
      tls: {certificateRefs: [{namespace: certs, name: granted}, {namespace: certs, name: other}]}
---
apiVersion: v1
kind: Secret
metadata: {namespace: certs, name: granted}
type: kubernetes.io/tls
stringData: {tls.crt: certificate, tls.key: key, ca.crt: authority}
---
apiVersion: v1
kind: Secret
metadata: {namespace: certs, name: other}
type: kubernetes.io/tls`

const grant = `
apiVersion: gateway.networking.k8s.io/v1
kind: ReferenceGrant
metadata: {namespace: certs, name: web}
spec:
  from: [{group: gateway.networking.k8s.io, kind: Gateway, namespace: web}]
  to: [{group: "", kind: Secret, name: granted}]`

// set is a ListenerSet of Gateway shop with a certificate of another namespace, which a grant allows.
const set = `
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {namespace: team, name: more}
spec:
  parentRef: {namespace: web, name: shop}
  listeners: [{name: more, port: 8443, protocol: HTTPS, tls: {certificateRefs: [{namespace: certs, name: other}]}}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: ReferenceGrant
metadata: {namespace: certs, name: team}
spec:
  from: [{group: gateway.networking.k8s.io, kind: ListenerSet, namespace: team}]
  to: [{group: "", kind: Secret, name: other}]`

var (
	copyOfGranted = source.LocalName("web", "certs", "granted")
	copyOfOther   = source.LocalName("web", "certs", "other")
)

var decoder = func() runtime.Decoder {
	scheme := runtime.NewScheme()
	utilruntime.Must(kubescheme.AddToScheme(scheme))
	utilruntime.Must(gatewayv1.Install(scheme))
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
}()

// fixture is a Copier that runs on a fake API server, in a bubble of synctest.
type fixture struct {
	t      *testing.T
	kube   *kubefake.Clientset
	routes *routesfake.Clientset
	copier *Copier
	// served are the resources of the Gateway API that the API server knows.
	served atomic.Pointer[metav1.APIResourceList]
	// isBroken says that the API server knows ListenerSets, but does not list them.
	isBroken atomic.Bool
	// refusals is how many Secrets the API server still refuses to create.
	refusals atomic.Int32
}

// run calls test with a fixture, whose cluster has resources of the Gateway API and the objects of YAML documents. The
// Copier runs once test calls start. It returns what was logged.
func run(t *testing.T, resources, documents string, test func(*fixture)) string {
	t.Helper()
	log, err := os.CreateTemp(t.TempDir(), "")
	must(t, err)
	must(t, flag.Set("logtostderr", "true"))
	stderr := os.Stderr
	os.Stderr = log
	defer func() { os.Stderr = stderr }()
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{t: t, kube: kubefake.NewClientset(), routes: routesfake.NewSimpleClientset()}
		f.kube.PrependReactor("list", "secrets", f.listSecrets)
		f.kube.PrependReactor("create", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
			return f.refusals.Add(-1) >= 0, nil, errors.New("not now")
		})
		f.routes.PrependReactor("list", "*", f.refuseUnknown)
		f.routes.PrependReactor("list", "listenersets", func(clienttesting.Action) (bool, runtime.Object, error) {
			// Of other errors, client-go keeps the time in a variable of all bubbles.
			return f.isBroken.Load(), nil, apierrors.NewResourceExpired("not now")
		})
		f.kube.PrependReactor("get", "resource", func(clienttesting.Action) (bool, runtime.Object, error) {
			f.kube.Resources = []*metav1.APIResourceList{f.served.Load()} // where the fake reads it
			return true, nil, nil
		})
		f.install(resources)
		f.put(documents)
		var err error
		f.copier, err = New(f.kube, f.routes)
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			f.copier.Run(ctx)
		}()
		test(f)
		cancel()
		<-stopped
		synctest.Wait()
	})
	_, err = log.Seek(0, io.SeekStart)
	must(t, err)
	logged, err := io.ReadAll(log)
	must(t, err)
	return string(logged)
}

// listSecrets heeds field selectors, which the fakes do not.
func (f *fixture) listSecrets(action clienttesting.Action) (bool, runtime.Object, error) {
	_, object, err := clienttesting.ObjectReaction(f.kube.Tracker())(action)
	if err != nil {
		return true, nil, err
	}
	list := object.(*corev1.SecretList)
	selector := action.(clienttesting.ListActionImpl).GetListRestrictions().Fields
	list.Items = slices.DeleteFunc(list.Items, func(secret corev1.Secret) bool {
		return !selector.Matches(fields.Set{"type": string(secret.Type)})
	})
	return true, list, nil
}

// refuseUnknown answers requests for resources that the API server does not know.
func (f *fixture) refuseUnknown(action clienttesting.Action) (bool, runtime.Object, error) {
	resource := action.GetResource()
	known := slices.ContainsFunc(f.served.Load().APIResources, func(r metav1.APIResource) bool {
		return r.Name == resource.Resource
	})
	return !known, nil, apierrors.NewNotFound(resource.GroupResource(), "")
}

// install has the API server know resources of the Gateway API from now on.
func (f *fixture) install(resources string) {
	list := &metav1.APIResourceList{GroupVersion: gatewayv1.GroupVersion.String()}
	for name := range strings.FieldsSeq(resources) {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: name})
	}
	f.served.Store(list)
}

// put creates or replaces objects.
func (f *fixture) put(documents string) {
	f.t.Helper()
	for document := range strings.SplitSeq(documents, "\n---\n") {
		object, kind, err := decoder.Decode([]byte(document), nil, nil)
		if err != nil {
			f.t.Fatalf("%v in\n%s", err, document)
		}
		if secret, ok := object.(*corev1.Secret); ok {
			secret.Data = map[string][]byte{}
			for key, value := range secret.StringData {
				secret.Data[key] = []byte(value)
			}
		}
		accessor, err := meta.Accessor(object)
		must(f.t, err)
		resource, tracker := f.resourceOf(*kind)
		if _, err := tracker.Get(resource, accessor.GetNamespace(), accessor.GetName()); err == nil {
			must(f.t, tracker.Update(resource, object, accessor.GetNamespace()))
		} else {
			must(f.t, tracker.Create(resource, object, accessor.GetNamespace()))
		}
	}
}

// remove deletes an object.
func (f *fixture) remove(kind schema.GroupVersionKind, namespace, name string) {
	f.t.Helper()
	resource, tracker := f.resourceOf(kind)
	must(f.t, tracker.Delete(resource, namespace, name))
}

func (f *fixture) resourceOf(kind schema.GroupVersionKind) (schema.GroupVersionResource, clienttesting.ObjectTracker) {
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	if kind.Kind == "Gateway" {
		resource.Resource = "gateways" // the guess is "gatewaies"
	}
	if kind.Group == gatewayv1.GroupName {
		return resource, f.routes.Tracker()
	}
	return resource, f.kube.Tracker()
}

// secrets are those of the Gateway's namespace after a while, as "NAME=CERTIFICATE".
func (f *fixture) secrets() string {
	f.t.Helper()
	time.Sleep(time.Minute)
	synctest.Wait() // for what the Copier does in the same moment
	list, err := f.kube.CoreV1().Secrets("web").List(f.t.Context(), metav1.ListOptions{})
	must(f.t, err)
	var all []string
	for i := range list.Items {
		all = append(all, list.Items[i].Name+"="+string(list.Items[i].Data[corev1.TLSCertKey]))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func (f *fixture) expectSecrets(want string) {
	f.t.Helper()
	if got := f.secrets(); got != want {
		f.t.Errorf("there are the Secrets %q, want %q", got, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var (
	referenceGrants = schema.GroupVersionKind{Group: gatewayv1.GroupName, Version: "v1", Kind: "ReferenceGrant"}
	secrets         = corev1.SchemeGroupVersion.WithKind("Secret")
)

const all = "gatewayclasses gateways listenersets referencegrants"

// TestWhatAGrantAllowsIsCopied: as long as it does, and as it is now.
func TestWhatAGrantAllowsIsCopied(t *testing.T) {
	run(t, all, shop+"\n---\n"+grant, func(f *fixture) {
		f.expectSecrets(copyOfGranted + "=certificate")
		made, err := f.kube.CoreV1().Secrets("web").Get(t.Context(), copyOfGranted, metav1.GetOptions{})
		must(t, err)
		if len(made.OwnerReferences) != 1 || made.OwnerReferences[0].UID != "uid-of-shop" || made.Type != corev1.SecretTypeTLS ||
			string(made.Data[corev1.TLSPrivateKeyKey]) != "key" || len(made.Data) != 2 {
			t.Errorf("the copy is %v", made)
		}

		granted := strings.Split(shop, "\n---\n")[3]
		f.put(strings.Replace(granted, "tls.crt: certificate", "tls.crt: renewed", 1))
		f.expectSecrets(copyOfGranted + "=renewed")
		f.remove(secrets, "certs", "granted")
		f.expectSecrets("")
		f.put(granted)
		f.expectSecrets(copyOfGranted + "=certificate")
		f.remove(referenceGrants, "certs", "web")
		f.expectSecrets("")
	})
}

// leftOver is a copy that an earlier run made, for which there is no grant any more.
const leftOver = `
apiVersion: v1
kind: Secret
metadata: {namespace: web, name: old, uid: uid-of-old, labels: {app.example.com/copy: "true"}}
type: kubernetes.io/tls
stringData: {tls.crt: old, tls.key: key}`

// TestACopyOfAnEarlierRunGoes: and no Secret that takes its place meanwhile.
func TestACopyOfAnEarlierRunGoes(t *testing.T) {
	run(t, all, shop+"\n---\n"+leftOver, func(f *fixture) {
		f.expectSecrets("")
		for _, action := range f.kube.Actions() {
			deleted, ok := action.(clienttesting.DeleteActionImpl)
			if ok && (deleted.DeleteOptions.Preconditions == nil || *deleted.DeleteOptions.Preconditions.UID != "uid-of-old") {
				t.Errorf("it deletes %s with %v", deleted.Name, deleted.DeleteOptions)
			}
		}
	})
}

// TestSecretsOfOthersAreLeftAlone: whatever their type, also with the name of a copy.
func TestSecretsOfOthersAreLeftAlone(t *testing.T) {
	for _, kind := range []string{"kubernetes.io/tls", "Opaque"} {
		secret := "apiVersion: v1\nkind: Secret\nmetadata: {namespace: web, name: " + copyOfGranted + "}\ntype: " + kind +
			"\nstringData: {tls.crt: mine}"
		run(t, all, shop+"\n---\n"+grant+"\n---\n"+secret, func(f *fixture) {
			f.expectSecrets(copyOfGranted + "=mine")
			f.remove(referenceGrants, "certs", "web")
			f.expectSecrets(copyOfGranted + "=mine")
		})
	}
}

// TestACopyIsNotCopied: a namespace gets what its own grants allow, and not what another got by one.
func TestACopyIsNotCopied(t *testing.T) {
	documents := strings.Replace(shop, "metadata: {namespace: certs, name: granted}",
		"metadata: {namespace: certs, name: granted, labels: {app.example.com/copy: \"true\"}}", 1)
	run(t, all, documents+"\n---\n"+grant, func(f *fixture) { f.expectSecrets("") })
}

func TestAFailedCopyIsTriedAgain(t *testing.T) {
	logged := run(t, all, shop, func(f *fixture) {
		f.refusals.Store(2)
		f.put(grant)
		f.expectSecrets(copyOfGranted + "=certificate")
	})
	if want := "Trying again: failed to copy Secret certs/granted to web/" + copyOfGranted + ": not now"; strings.Count(logged, want) != 2 {
		t.Errorf("the log is\n%s\nwant twice %s", logged, want)
	}
}

// TestWithoutListenerSets: a cluster need not have them. Their certificates are copied once it has.
func TestWithoutListenerSets(t *testing.T) {
	run(t, "gatewayclasses gateways referencegrants", shop+"\n---\n"+grant+"\n---\n"+set, func(f *fixture) {
		f.expectSecrets(copyOfGranted + "=certificate")
		f.install(all)
		f.expectSecrets(copyOfGranted + "=certificate " + copyOfOther + "=")
	})
}

// TestListenerSetsThatAreNotListed: nothing is deleted that may be for one, and the log names them.
func TestListenerSetsThatAreNotListed(t *testing.T) {
	logged := run(t, "gatewayclasses gateways referencegrants", shop+"\n---\n"+grant+"\n---\n"+set, func(f *fixture) {
		f.expectSecrets(copyOfGranted + "=certificate")
		f.isBroken.Store(true)
		f.install(all)
		time.Sleep(discoverInterval + time.Second)
		f.remove(referenceGrants, "certs", "web")
		f.expectSecrets(copyOfGranted + "=certificate")
		f.isBroken.Store(false)
		f.expectSecrets(copyOfOther + "=")
	})
	if want := "Waiting: the API server has not listed listenersets\n"; strings.Count(logged, want) != 1 {
		t.Errorf("the log is\n%s\nwant one line %s", logged, want)
	}
}

// TestWithoutReferenceGrants: nothing can be copied, nothing is deleted, and the log tells so once. It begins when they
// are there.
func TestWithoutReferenceGrants(t *testing.T) {
	for _, test := range []struct{ name, resources, missing string }{
		{"an older Gateway API", "gatewayclasses gateways", "referencegrants"},
		{"no Gateways", "referencegrants listenersets", "gatewayclasses, gateways"},
		{"no Gateway API", "", "gatewayclasses, gateways, referencegrants"},
	} {
		t.Run(test.name, func(t *testing.T) {
			logged := run(t, test.resources, shop+"\n---\n"+grant+"\n---\n"+leftOver, func(f *fixture) {
				f.expectSecrets("old=old")
				f.install(all)
				f.expectSecrets(copyOfGranted + "=certificate")
			})
			waits := "Waiting: the cluster does not have " + test.missing + " of gateway.networking.k8s.io/v1: install the CRDs"
			if strings.Count(logged, waits) != 1 || strings.Count(logged, "Waiting") != 1 || strings.Count(logged, "Copying certificates") != 1 {
				t.Errorf("the log is\n%s\nwant one line %s", logged, waits)
			}
		})
	}
}
