package cli

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
	"gateway/internal/proxypod"
	"gateway/internal/source/gatewayapi"
)

// Live returns a Gateway of the cluster, with everything around it.
func (c Clients) Live(ctx context.Context, namespace, name string) (*Site, error) {
	gateway, err := c.Gateway(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	return c.Around(ctx, gateway)
}

// Gateway returns a Gateway of our own, or that for a Gateway of the Gateway API. The error says why this has none.
func (c Clients) Gateway(ctx context.Context, namespace, name string) (*appv1.Gateway, error) {
	gateway, err := c.Gateways.AppV1().Gateways(namespace).Get(ctx, name, metav1.GetOptions{})
	if own := gatewayapi.DataPlaneName(name); apierrors.IsNotFound(err) && own != name {
		gateway, err = c.Gateways.AppV1().Gateways(namespace).Get(ctx, own, metav1.GetOptions{})
	}
	if err == nil {
		return gateway, nil
	}
	if apierrors.IsNotFound(err) {
		if other, otherErr := c.Routes.GatewayV1().Gateways(namespace).Get(ctx, name, metav1.GetOptions{}); otherErr == nil {
			return nil, withoutProxies(other)
		}
	}
	return nil, fmt.Errorf("failed to get Gateway %s/%s: %w", namespace, name, err)
}

func withoutProxies(gateway *gatewayv1.Gateway) error {
	why := strings.Join(Unserved(gateway), "; ")
	if why == "" {
		why = fmt.Sprintf("see its conditions: kubectl -n %s describe gateways.%s %s", gateway.Namespace, gatewayv1.GroupName, gateway.Name)
	}
	return fmt.Errorf("Gateway %s/%s of the Gateway API has no proxies: %s", gateway.Namespace, gateway.Name, why)
}

// Unserved returns which listeners of a Gateway of the Gateway API are not served, and why.
func Unserved(gateway *gatewayv1.Gateway) []string {
	var all []string
	for _, listener := range gateway.Status.Listeners {
		c := meta.FindStatusCondition(listener.Conditions, string(gatewayv1.ListenerConditionProgrammed))
		if c != nil && c.Status == metav1.ConditionFalse {
			all = append(all, fmt.Sprintf("listener %s is not served: %s", listener.Name, c.Message))
		}
	}
	return all
}

// Around returns a Gateway of the cluster with everything around it: the objects of the Gateway API that belong to it,
// the Services and EndpointSlices of its namespace and theirs, and the ConfigMaps that are named.
func (c Clients) Around(ctx context.Context, gateway *appv1.Gateway) (*Site, error) {
	site, err := c.Attached(ctx, gateway)
	if err != nil {
		return nil, err
	}
	namespaces := slices.Sorted(maps.Keys(site.namespaces))
	if _, ok := site.namespaces[gateway.Namespace]; !ok {
		namespaces = append(namespaces, gateway.Namespace)
	}
	for _, namespace := range namespaces {
		if err := site.unread(c.readServices(ctx, site, namespace)); err != nil {
			return nil, err
		}
	}
	site.translate()
	return site, c.readConfigMaps(ctx, site)
}

// Attached returns a Gateway of the cluster with the objects of the Gateway API that belong to it, and nothing else.
func (c Clients) Attached(ctx context.Context, gateway *appv1.Gateway) (*Site, error) {
	site := newSite(gateway)
	site.Live = true
	attachments, err := c.Gateways.AppV1().GatewayAttachments(gateway.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: proxypod.PodSelector(gateway.Name).String(),
	})
	if err := site.unread(err); err != nil {
		return nil, err
	}
	site.namespaces = gatewayapi.Attached(gateway, pointers(attachments.Items))
	site.attached = gatewayapi.AttachedTo(gateway, site.namespaces)
	add := func(object runtime.Object) error {
		site.attached.AddAttached(object)
		return nil
	}
	client := c.Routes.GatewayV1().RESTClient()
	if parent := proxypod.Parent(gateway); parent != "" {
		object, err := client.Get().Namespace(gateway.Namespace).Resource("gateways").Name(parent).Do(ctx).Get()
		if err == nil {
			err = add(object)
		}
		if err := site.unread(err); err != nil {
			return nil, err
		}
	}
	for _, namespace := range slices.Sorted(maps.Keys(site.namespaces)) {
		for _, resource := range site.namespaces[namespace].Resources {
			client := client
			if resource == proxypod.ResourceImports {
				if err := site.unread(c.readImports(ctx, site, namespace)); err != nil {
					return nil, err
				}
				continue
			}
			if proxypod.GroupOf(resource) == appv1.GroupName {
				client = c.Gateways.AppV1().RESTClient()
			}
			list, err := client.Get().Namespace(namespace).Resource(resource).Do(ctx).Get()
			if err == nil {
				err = meta.EachListItem(list, add)
			}
			if err := site.unread(err); err != nil {
				return nil, err
			}
		}
	}
	site.translate()
	return site, nil
}

// pointers returns pointers to the elements of a list.
func pointers[E any](list []E) iter.Seq[*E] {
	return func(yield func(*E) bool) {
		for i := range list {
			if !yield(&list[i]) {
				return
			}
		}
	}
}

// readServices takes the Services and EndpointSlices of a namespace from the cluster.
func (c Clients) readServices(ctx context.Context, site *Site, namespace string) error {
	services, err := c.Core.Services(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	endpoints, err := c.Discovery.EndpointSlices(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range services.Items {
		site.addService(&services.Items[i], false)
	}
	for i := range endpoints.Items {
		site.addSlice(&endpoints.Items[i])
	}
	site.known[namespace] = true
	return nil
}

// readImports takes the ServiceImports of a namespace from the cluster.
func (c Clients) readImports(ctx context.Context, site *Site, namespace string) error {
	imports, err := c.Imports.ServiceImports(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range imports.Items {
		site.addService(&imports.Items[i], true)
	}
	return nil
}

// unread notes that an object cannot be read, because the user may not or it is gone. It returns any other error.
func (s *Site) unread(err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		s.Unread = append(s.Unread, err.Error())
		return nil
	}
	return fmt.Errorf("failed to read what belongs to Gateway %s: %w", s.Name(), err)
}

// Complete returns an error if some objects of the Gateway in the cluster are not known.
func (s *Site) Complete() error {
	if len(s.Unread) == 0 {
		return nil
	}
	return fmt.Errorf("not all is known of Gateway %s: %s", s.Name(), strings.Join(s.Unread, "; "))
}

// translate makes the model of the known objects.
func (s *Site) translate() {
	s.attached.Service = s.service
	result := gatewayapi.Translate(s.attached)
	s.model, s.Ignored = result.For(s.Gateway), nil
	if s.model != nil {
		s.model.Problems = append(s.model.Problems, result.Reported(s.Gateway)...)
	}
	// Other Gateways may send traffic to a Service that exists.
	for _, target := range result.IdleTargets() {
		if target.Missing {
			s.Ignored = append(s.Ignored, target.Message)
		}
	}
}

// Edited returns a Gateway of the cluster with what a file has of it: the Gateway, ConfigMaps, and objects of the
// Gateway API. All else is the cluster's.
func (c Clients) Edited(ctx context.Context, live, file *Site) (*Site, error) {
	edited := *live
	edited.Gateway = live.Gateway.DeepCopy()
	if !file.isAssumed && file.IsGatewayAPI != (proxypod.Parent(live.Gateway) != "") {
		return nil, fmt.Errorf("Gateway %s is of one group in the files, and of another one in the cluster", file.Name())
	}
	var parents []string
	switch {
	case file.isAssumed:
	case !file.IsGatewayAPI:
		edited.Gateway.Spec = file.Gateway.Spec
	default:
		parents = []string{"Gateway", "ListenerSet"}
		if file.settings != nil {
			edited.Gateway.Spec = *file.settings
		}
	}
	edited.attached = with(live.attached, file.attached, parents)
	if file.settings != nil {
		filters := gatewayapi.AttachedTo(edited.Gateway, live.namespaces)
		edited.attached.ListenerFilters, edited.attached.FiltersUnknown = filters.ListenerFilters, filters.FiltersUnknown
	}
	if len(live.attached.Own) > 0 {
		edited.attached.Own = []*appv1.Gateway{edited.Gateway}
	}
	edited.configMaps = maps.Clone(live.configMaps)
	maps.Copy(edited.configMaps, file.configMaps)
	edited.translate()
	return &edited, c.readConfigMaps(ctx, &edited)
}

// Against returns what a Gateway of the cluster would be with what files have, as far as the user may read the
// cluster. Objects that the user may not read are assumed, with a note.
func (o *Options) Against(ctx context.Context, file *Site) (*Site, error) {
	clients, _, err := o.Connect()
	if err != nil {
		return nil, err
	}
	live, err := clients.Live(ctx, file.Gateway.Namespace, file.Gateway.Name)
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		o.Note("Gateway %s of the cluster is not known, and assumed to take all hosts and namespaces: %v", file.Name(), err)
		return file, nil
	}
	if err != nil {
		return nil, err
	}
	for _, unread := range live.Unread {
		o.Note("not all is known of Gateway %s of the cluster: %s", file.Name(), unread)
	}
	edited, err := clients.Edited(ctx, live, file)
	if err != nil {
		return nil, err
	}
	edited.documents, edited.IsGatewayAPI, edited.isEdited, edited.Unread = file.documents, file.IsGatewayAPI, true, nil
	edited.services, edited.slices = maps.Clone(live.services), maps.Clone(live.slices)
	maps.Copy(edited.services, file.services)
	maps.Copy(edited.slices, file.slices)
	edited.translate()
	return edited, nil
}

// OfFiles returns the problems of the files. Where files are compared with a cluster, it leaves out problems of routes
// and policies that only the cluster has.
func (s *Site) OfFiles(problems []model.Problem) []model.Problem {
	if !s.isEdited {
		return problems
	}
	return slices.DeleteFunc(problems, func(problem model.Problem) bool {
		if kind := problem.Origin.Kind; kind == "" || kind == "Gateway" {
			return false
		}
		document, _ := find(s.documents, gatewayv1.GroupName, problem)
		return document == nil
	})
}

// with returns the objects of the cluster and of a file; an object of the file replaces the one of its name. New
// objects are the youngest. parents are the kinds of parents that count; Gateways count if the cluster has them.
func with(live, file gatewayapi.Objects, parents []string) gatewayapi.Objects {
	edited := map[gatewayapi.Object]metav1.Object{}
	youngest := metav1.NewTime(time.Now().Add(24 * time.Hour)) // than any object, with whatever clock the cluster has
	file.Each(func(kind string, object metav1.Object) {
		isOther := kind == "Gateway" && !slices.ContainsFunc(live.Gateways, func(g *gatewayv1.Gateway) bool {
			return g.Name == object.GetName() && g.Namespace == object.GetNamespace()
		})
		if !isOther && (slices.Contains(parents, kind) || !slices.Contains([]string{"GatewayClass", "Gateway", "ListenerSet", gatewayapi.KindOwn}, kind)) {
			object.SetCreationTimestamp(youngest)
			edited[gatewayapi.Object{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName()}] = object
		}
	})
	all := live.Only(func(kind string, object metav1.Object) bool {
		other := edited[gatewayapi.Object{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName()}]
		if other != nil {
			other.SetCreationTimestamp(object.GetCreationTimestamp())
		}
		return other == nil
	})
	for _, object := range edited {
		all.AddAttached(object)
	}
	all.Namespaces = maps.Clone(live.Namespaces)
	maps.Copy(all.Namespaces, file.Namespaces)
	return all
}
