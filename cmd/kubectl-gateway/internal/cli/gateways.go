package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/cmd/kubectl-gateway/internal/admission"
	"gateway/internal/endpoints"
	"gateway/internal/model"
	"gateway/internal/routing"
	"gateway/internal/source/gatewayapi"
)

// Site is a Gateway with everything around it.
type Site struct {
	Gateway *appv1.Gateway
	// Live reports whether all of it is from the cluster. Otherwise, what the files do not have is taken to exist.
	Live bool
	// IsGatewayAPI reports whether the Gateway is one of the Gateway API. Then only the metadata of Gateway are set.
	IsGatewayAPI bool

	// Ignored names policies and annotations that have no effect.
	Ignored []string
	// isAssumed reports whether the files do not have the Gateway. settings are what their GatewayConfigs make of one of
	// the Gateway API; nil: they have none for it.
	isAssumed bool
	// isEdited reports whether it is one of the cluster with what files have.
	isEdited bool
	settings *appv1.GatewaySpec
	// documents are what files have, of whatever kind.
	documents []Document
	// Unread is why not all is known that the Gateway has in the cluster.
	Unread []string

	// model is what the Gateway and the routes that belong to it ask for; nil: what the Gateway alone does.
	model *model.Gateway
	// attached are objects of the Gateway API: the ones that belong to the Gateway, or all of the files.
	attached gatewayapi.Objects
	// namespaces are the cluster's namespaces that may have such objects, by name.
	namespaces map[string]appv1.GatewayAttachmentSpec

	// known are the namespaces of which it has all Services and EndpointSlices that there are.
	known    map[string]bool
	services map[types.NamespacedName]*corev1.Service
	slices   map[types.NamespacedName][]*discoveryv1.EndpointSlice
	// configMaps are what ConfigMaps have, by the names that the model has for those.
	configMaps map[string]map[string]string
	// secrets are the files of Secrets, by the names that the model has for those. They come from files alone.
	secrets map[string]map[string][]byte
}

// Name returns the Gateway's namespace and name.
func (s *Site) Name() string { return s.Gateway.Namespace + "/" + s.Gateway.Name }

// IsProgrammed reports whether every proxy runs the Gateway's generation.
func IsProgrammed(gateway *appv1.Gateway) bool {
	return Programmed(gateway) == metav1.ConditionTrue
}

// EachAttached calls f with each object that belongs to the Gateway, and its kind.
func (s *Site) EachAttached(f func(kind string, object metav1.Object)) { s.attached.Each(f) }

// HasAttached reports whether objects of the Gateway API in the cluster may belong to the Gateway.
func (s *Site) HasAttached() bool { return len(s.namespaces)+len(s.Unread) > 0 }

// BadConditions returns the conditions of a Gateway that are not True. If they are not of its generation, one without a
// type says so.
func BadConditions(gateway *appv1.Gateway) []metav1.Condition {
	if len(gateway.Status.Conditions) == 0 {
		return []metav1.Condition{{Message: "no operator has looked at it"}}
	}
	var bad []metav1.Condition
	for _, kind := range []string{appv1.ConditionAccepted, appv1.ConditionResolvedRefs, appv1.ConditionProgrammed} {
		condition := meta.FindStatusCondition(gateway.Status.Conditions, kind)
		switch {
		case condition == nil:
		case condition.ObservedGeneration != gateway.Generation:
			return []metav1.Condition{{Message: fmt.Sprintf("the operator has not looked at generation %d yet", gateway.Generation)}}
		case condition.Status != metav1.ConditionTrue:
			bad = append(bad, *condition)
		}
	}
	return bad
}

// Programmed is the condition of a Gateway, if it is about the latest generation.
func Programmed(gateway *appv1.Gateway) metav1.ConditionStatus {
	condition := meta.FindStatusCondition(gateway.Status.Conditions, appv1.ConditionProgrammed)
	if condition == nil || condition.ObservedGeneration != gateway.Generation {
		return metav1.ConditionUnknown
	}
	return condition.Status
}

// RouteProblems returns the problems of a route of a Gateway of our own kind.
func RouteProblems(gateway *appv1.Gateway, kind string, name appv1.Name) []string {
	var problems []string
	for _, route := range gateway.Status.Routes {
		if route.Kind != kind || route.Name != name {
			continue
		}
		for _, condition := range []string{appv1.ConditionAccepted, appv1.ConditionResolvedRefs} {
			if found := meta.FindStatusCondition(route.Conditions, condition); found != nil && found.Status != metav1.ConditionTrue {
				problems = append(problems, found.Message)
			}
		}
	}
	return problems
}

// WantedReplicas is how many proxies a Gateway asks for. With a DaemonSet, it is how many there are.
func WantedReplicas(gateway *appv1.Gateway) int32 {
	switch {
	case gateway.Spec.Pods.Kind == appv1.PodsKindDaemonSet:
		return gateway.Status.Replicas
	case gateway.Spec.Replicas == nil:
		return 2 // the schema's default
	}
	return *gateway.Spec.Replicas
}

// One returns the Gateway of that name, from the files or, without any, from the cluster. Of those that FromFiles
// returns, only one may have the name, or be there if name is "".
func (o *Options) One(ctx context.Context, files Files, name string) (*Site, error) {
	if len(files.Paths) == 0 {
		return o.live(ctx, name)
	}
	sites, err := o.FromFiles(files)
	if err != nil {
		return nil, err
	}
	var fit []*Site
	for _, site := range sites {
		if name == "" || site.Gateway.Name == name {
			fit = append(fit, site)
		}
	}
	paths := strings.Join(files.Paths, ", ")
	switch len(fit) {
	case 0:
		names, _ := tellApart(sites)
		return nil, fmt.Errorf("there is no Gateway %s in %s, but %s", name, paths, names)
	case 1:
		if files.AgainstCluster {
			return o.Against(ctx, fit[0])
		}
		return fit[0], nil
	}
	names, how := tellApart(fit)
	return nil, Usagef("there are several Gateways in %s, name one of them%s: %s", paths, how, names)
}

// tellApart lists Gateways: by their names alone, if no two have the same. how is what it takes beside a name to choose
// one.
func tellApart(sites []*Site) (names, how string) {
	var short, long []string
	for _, site := range sites {
		if i := slices.Index(short, site.Gateway.Name); i >= 0 && long[i] != site.Name() {
			how = " with -n"
		}
		short, long = append(short, site.Gateway.Name), append(long, site.Name())
	}
	if how != "" {
		short = long
	}
	return strings.Join(short, ", "), how
}

// Objects returns the objects of files, as kubectl apply would leave them, and the namespace of those that name none.
// If an object is there several times, the last one counts, with a warning. The error names each object of an unknown
// kind.
func (o *Options) Objects(files Files) (documents []Document, namespace string, err error) {
	documents, replaced, namespace, err := o.objects(files)
	o.warnOf(replaced)
	return documents, namespace, err
}

// objects is Objects, but returns the warnings instead of printing them.
func (o *Options) objects(files Files) (documents []Document, replaced []string, namespace string, err error) {
	if documents, err = files.Read(o.In); err != nil {
		return nil, nil, "", err
	}
	// This reads the kubeconfig alone. Without a good one, no cluster is meant.
	if namespace, err = o.Namespace(); err != nil {
		namespace = cmp.Or(*o.Flags.Namespace, metav1.NamespaceDefault)
	}
	var errs []error
	last := map[string]int{}
	for i, document := range documents {
		kind := document.Object.GroupVersionKind()
		if why := unknownKind(kind); why != "" {
			errs = append(errs, fmt.Errorf("%s: %s: %s", document.Source, document, why))
		}
		name := fmt.Sprint(kind.GroupKind(), cmp.Or(document.Object.GetNamespace(), namespace), "/", document.Object.GetName())
		if earlier, ok := last[name]; ok {
			const message = "%s: %s is also in %s: the last one counts, as with kubectl apply"
			replaced = append(replaced, fmt.Sprintf(message, documents[earlier].Source, document, document.Source))
			documents[earlier].Object = nil
		}
		last[name] = i
	}
	documents = slices.DeleteFunc(documents, func(d Document) bool { return d.Object == nil })
	return documents, replaced, namespace, errors.Join(errs...)
}

// FromFiles returns all Gateways of the files as the API server would store them, or, with -n, of that namespace. It
// asks no cluster. The error names what the API server would refuse.
func (o *Options) FromFiles(files Files) ([]*Site, error) {
	documents, replaced, namespace, err := o.objects(files)
	if err != nil {
		return nil, err
	}
	found, err := read(documents, namespace)
	if err != nil {
		return nil, err
	}
	assumed, err := found.assume(namespace)
	if err != nil {
		return nil, err
	}
	for _, note := range assumed {
		if !files.AgainstCluster {
			o.Note("%s", note)
		}
	}
	var elsewhere []string
	sites, lost, idle := found.sites(func(gateway *appv1.Gateway) bool {
		if chosen := *o.Flags.Namespace; chosen != "" && gateway.Namespace != chosen && len(assumed) == 0 {
			elsewhere = append(elsewhere, gateway.Namespace+"/"+gateway.Name)
			return false
		}
		return true
	})
	if len(assumed) > 0 {
		idle = nil // what uses it may be elsewhere, too
	}
	placed := func(problems []model.Problem) []string {
		texts := make([]string, len(problems))
		for i := range problems {
			texts[i] = place(found.documents, problems[i]) + problems[i].Message
		}
		return texts
	}
	first := slices.Concat(replaced, ignored(documents), wideRanges(documents), placed(lost))
	o.warnOf(first)
	o.idle = placed(idle)
	for _, document := range documents {
		if len(sites) > 0 && document.Object.GetKind() == "Ingress" {
			o.Note("%s: %s is not looked at: kubectl gateway convert makes HTTPRoutes of it", document.Source, document)
		}
		for _, field := range admission.Experimental(document.Object) {
			o.Note("%s: %s: %s needs the CRDs of the Gateway API's experimental channel", document.At(field), document, cmp.Or(field, "the kind"))
		}
	}
	for _, site := range sites {
		site.Ignored = slices.Concat(first, o.idle)
		site.isAssumed = len(assumed) > 0
	}
	switch {
	case len(sites) == 0 && len(elsewhere) > 0:
		paths, others := strings.Join(files.Paths, ", "), strings.Join(elsewhere, ", ")
		return nil, fmt.Errorf("there is no Gateway of namespace %s in %s, but %s", namespace, paths, others)
	case len(sites) == 0:
		return nil, noGateway(documents, strings.Join(files.Paths, ", "))
	}
	return sites, nil
}

// WarnOfIdle warns of what may have no effect because of what was warned of before.
func (o *Options) WarnOfIdle() {
	o.warnOf(o.idle)
	o.idle = nil
}

// warnOf warns of parts without effect.
func (o *Options) warnOf(ignored []string) {
	for _, message := range ignored {
		o.Warn("%s", message)
	}
}

// noGateway says that files have no Gateway that proxies can be for, and what can be done with what they have.
func noGateway(documents []Document, paths string) error {
	for i := range documents {
		switch kind := documents[i].Object.GroupVersionKind(); {
		case kind.Group == gatewayv1.GroupName && kind.Kind == "Gateway":
			const message = "%s: %s is of the Gateway API, with a GatewayClass that is not of %s: give it the gatewayClassName gateway"
			return fmt.Errorf(message, documents[i].Source, documents[i], gatewayapi.ControllerName)
		case kind.Kind == "Ingress":
			return fmt.Errorf("%s: %s is no Gateway: make a Gateway of it with kubectl gateway convert", documents[i].Source, documents[i])
		}
	}
	return fmt.Errorf("there is no Gateway (%s or %s) in %s", appv1.SchemeGroupVersion, gatewayv1.GroupVersion, paths)
}

func newSite(gateway *appv1.Gateway) *Site {
	return &Site{
		Gateway: gateway, known: map[string]bool{}, services: map[types.NamespacedName]*corev1.Service{}, slices: map[types.NamespacedName][]*discoveryv1.EndpointSlice{},
		configMaps: map[string]map[string]string{}, secrets: map[string]map[string][]byte{},
	}
}

// localName returns the name that the model has for a Secret or a ConfigMap.
func (s *Site) localName(object metav1.Object) string {
	return gatewayapi.LocalName(s.Gateway.Namespace, object.GetNamespace(), object.GetName())
}

// addService adds a Service, or a ServiceImport as one.
func (s *Site) addService(service *corev1.Service, isImport bool) {
	name := types.NamespacedName{Namespace: service.Namespace, Name: service.Name}
	if isImport {
		name.Name = model.ServiceImport(service.Name)
	}
	s.services[name] = service
}

func (s *Site) addSlice(slice *discoveryv1.EndpointSlice) {
	for _, of := range endpoints.ServicesOf(slice) {
		service := types.NamespacedName{Namespace: slice.Namespace, Name: of}
		s.slices[service] = append(s.slices[service], slice)
	}
}

// live returns a Gateway of the cluster.
func (o *Options) live(ctx context.Context, name string) (*Site, error) {
	if name == "" {
		return nil, Usagef("name a Gateway of the cluster, or a file with -f")
	}
	clients, namespace, err := o.Connect()
	if err != nil {
		return nil, err
	}
	site, err := clients.Live(ctx, namespace, name)
	if err == nil {
		o.warnOf(site.Ignored)
	}
	return site, err
}

// readConfigMaps reads the ConfigMaps that a Gateway needs from the cluster, except known ones.
func (c Clients) readConfigMaps(ctx context.Context, site *Site) error {
	namespace := site.Gateway.Namespace
	table, _ := site.Compile()
	for _, configMap := range slices.Concat(AuthorityNames(table), KeySetNames(table), RuleSetNames(table)) {
		if _, ok := site.configMaps[configMap]; ok {
			continue
		}
		found, err := c.Core.ConfigMaps(namespace).Get(ctx, configMap, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("failed to get ConfigMap %s/%s: %w", namespace, configMap, err)
		}
		site.configMaps[configMap] = found.Data
	}
	return nil
}

// KeySetNames returns the ConfigMaps that a table needs for keys of tokens.
func KeySetNames(table routing.Table) []string {
	var names []string
	for _, from := range keySources(table) {
		if from.URL == "" {
			names = append(names, from.ConfigMap)
		} else {
			names = append(names, strings.Split(from.Authorities, ",")...)
		}
	}
	return names
}

// RuleSetNames returns the ConfigMaps that a table needs for rules of WAFs.
func RuleSetNames(table routing.Table) []string { return slices.Collect(table.Uses.RuleSets.Values()) }

// AuthorityNames returns the ConfigMaps that a table needs, sorted and each once.
func AuthorityNames(table routing.Table) []string {
	return slices.DeleteFunc(authorities(table), isTrustBundle)
}

// TrustBundles returns the ClusterTrustBundles that a table needs, by the names that the model has for those.
func TrustBundles(table routing.Table) []string {
	return slices.DeleteFunc(authorities(table), func(name string) bool { return !isTrustBundle(name) })
}

func isTrustBundle(name string) bool {
	_, is := model.TrustBundleOf(name)
	return is
}

// authorities returns the names that a table has for CAs of its own, sorted and each once.
func authorities(table routing.Table) []string {
	var names []string
	for i := range table.Listeners {
		if tls := table.Listeners[i].TLS; tls != nil {
			names = append(names, tls.ClientCAs...)
		}
	}
	for _, policy := range table.Policies {
		if policy.TLS != nil {
			names = append(names, policy.TLS.CAs...)
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == model.SystemCAs })
	slices.Sort(names)
	return slices.Compact(names)
}
