// Package multicluster reads ServiceImports of the Multi-Cluster Services API. A cluster may not have their CRD.
package multicluster

import (
	"context"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"

	"gateway/internal/proxypod"
)

// Kind is the kind of ServiceImports.
const Kind = "ServiceImport"

// Versions are the versions of the API that are read, the preferred one first. Their ServiceImports are alike.
var Versions = []schema.GroupVersion{
	{Group: proxypod.GroupMultiCluster, Version: "v1beta1"}, {Group: proxypod.GroupMultiCluster, Version: "v1alpha1"},
}

// Register makes ServiceImports known to a scheme, as Services: they have the fields of a Service that are read.
func Register(scheme *runtime.Scheme) {
	for _, version := range Versions {
		scheme.AddKnownTypeWithName(version.WithKind(Kind), &corev1.Service{})
		scheme.AddKnownTypeWithName(version.WithKind(Kind+"List"), &corev1.ServiceList{})
	}
}

// Client reaches ServiceImports, in whatever version there is.
type Client struct {
	versions []rest.Interface
	options  runtime.ParameterCodec
}

// NewForConfigAndClient returns a client for a cluster.
func NewForConfigAndClient(config *rest.Config, transport *http.Client) (*Client, error) {
	scheme := runtime.NewScheme()
	Register(scheme)
	for _, version := range Versions {
		metav1.AddToGroupVersion(scheme, version)
	}
	c := &Client{options: runtime.NewParameterCodec(scheme)}
	for _, version := range Versions {
		of := rest.CopyConfig(config)
		of.GroupVersion, of.APIPath, of.ContentType, of.AcceptContentTypes = &version, "/apis", runtime.ContentTypeJSON, runtime.ContentTypeJSON
		of.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
		one, err := rest.RESTClientForConfigAndClient(of, transport)
		if err != nil {
			return nil, fmt.Errorf("failed to make a client for %s: %w", version, err)
		}
		c.versions = append(c.versions, one)
	}
	return c, nil
}

// Reader lists and watches the ServiceImports of a namespace.
type Reader struct {
	client    *Client
	namespace string
}

// ServiceImports returns a Reader for a namespace; "": for all.
func (c *Client) ServiceImports(namespace string) Reader { return Reader{c, namespace} }

// List lists ServiceImports.
func (r Reader) List(ctx context.Context, options metav1.ListOptions) (*corev1.ServiceList, error) {
	return ofVersion(r, func(of services) (*corev1.ServiceList, error) { return of.List(ctx, options) })
}

// Watch watches ServiceImports.
func (r Reader) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return ofVersion(r, func(of services) (watch.Interface, error) { return of.Watch(ctx, options) })
}

type services = *gentype.ClientWithList[*corev1.Service, *corev1.ServiceList]

// ofVersion asks for the versions in turn, until the API server knows one.
func ofVersion[T any](r Reader, ask func(services) (T, error)) (answer T, err error) {
	for _, client := range r.client.versions {
		answer, err = ask(gentype.NewClientWithList[*corev1.Service, *corev1.ServiceList](proxypod.ResourceImports, client, r.client.options,
			r.namespace, func() *corev1.Service { return &corev1.Service{} }, func() *corev1.ServiceList { return &corev1.ServiceList{} }))
		if !apierrors.IsNotFound(err) {
			return answer, err
		}
	}
	return answer, err
}
