package bundle

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	appv1 "gateway/api/app/v1"
	"gateway/cmd/kubectl-gateway/internal/check"
	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/cmd/kubectl-gateway/internal/routes"
	"gateway/cmd/kubectl-gateway/internal/version"
	"gateway/internal/haproxy/render"
	"gateway/internal/proxypod"
)

// maxLog bounds what is read of a log.
const maxLog = 16 << 20

// collector puts what there is of Gateways into an archive.
type collector struct {
	*archive
	clients cli.Clients
	dynamic dynamic.Interface
	tail    int64
}

// resource is one of the API server. Without a selector, all objects of a namespace count.
type resource struct {
	group, version, name, selector string
}

var resources = slices.Concat(
	of(appv1.GroupName, "v1", "", "gateways", "gatewayconfigs", "routefilters", "backendpolicies", "gatewayproxies", "gatewayattachments"),
	of(gatewayv1.GroupName, "v1", "", "gateways", "listenersets", "httproutes", "grpcroutes", "tlsroutes", "tcproutes", "backendtlspolicies", "referencegrants"),
	of(proxypod.GroupMultiCluster, "v1alpha1", "", proxypod.ResourceImports), // all CRDs of it serve this version
	of("", "v1", "", "services", "events"), of("discovery.k8s.io", "v1", "", "endpointslices"), of("networking.k8s.io", "v1", "", "ingresses"),
	of("", "v1", proxypod.LabelGateway, "pods"), of("apps", "v1", proxypod.LabelGateway, "deployments", "daemonsets"),
)

func of(group, version, selector string, names ...string) (all []resource) {
	for _, name := range names {
		all = append(all, resource{group, version, name, selector})
	}
	return all
}

// collect adds everything about Gateways.
func (c *collector) collect(ctx context.Context, gateways []appv1.Gateway, namespace string) {
	namespaces := map[string]bool{}
	if namespace != metav1.NamespaceAll {
		namespaces[namespace] = true
	}
	for i := range gateways {
		namespaces[gateways[i].Namespace] = true
		list, err := c.clients.Gateways.AppV1().GatewayAttachments(gateways[i].Namespace).List(ctx, metav1.ListOptions{LabelSelector: proxypod.PodSelector(gateways[i].Name).String()})
		if err != nil {
			c.missing = append(c.missing, fmt.Sprintf("namespaces of Gateway %s: %v", gateways[i].Name, err))
			continue
		}
		for j := range list.Items {
			namespaces[list.Items[j].Spec.Namespace] = true
		}
	}
	c.summaries(ctx, namespace)
	for _, name := range slices.Sorted(maps.Keys(namespaces)) {
		for _, r := range resources {
			c.objects(ctx, name, r)
		}
	}
	for i := range gateways {
		c.gateway(ctx, &gateways[i])
	}
	c.operators(ctx)
}

// summaries adds what other commands tell.
func (c *collector) summaries(ctx context.Context, namespace string) {
	found, err := version.Find(ctx, c.clients)
	c.addJSON("version.json", found, err)
	findings := []check.Finding{}
	err = check.All(ctx, c.clients, namespace, func(f check.Finding) { findings = append(findings, f) })
	c.addJSON("check.json", findings, err)
	all, _, err := routes.Read(ctx, c.clients, namespace) // the objects themselves are missing, too
	c.addJSON("routes.json", all, err)
}

func (c *collector) addJSON(name string, value any, err error) {
	content, encodeErr := json.MarshalIndent(value, "", "  ")
	c.add(name, content, errors.Join(err, encodeErr))
}

// objects adds the objects of a resource, if there are some.
func (c *collector) objects(ctx context.Context, namespace string, r resource) {
	name := fmt.Sprintf("objects/%s/%s.yaml", namespace, strings.TrimSuffix(r.name+"."+r.group, "."))
	client := c.dynamic.Resource(schema.GroupVersionResource{Group: r.group, Version: r.version, Resource: r.name}).Namespace(namespace)
	list, err := client.List(ctx, metav1.ListOptions{LabelSelector: r.selector})
	if apierrors.IsNotFound(err) {
		return // the cluster does not have the kind
	}
	if err != nil {
		c.add(name, nil, err)
		return
	}
	if r.name == "events" {
		list.Items = slices.DeleteFunc(list.Items, func(event unstructured.Unstructured) bool { return !isAboutGateways(event) })
	}
	if len(list.Items) == 0 {
		return
	}
	content, err := yaml.Marshal(list)
	c.add(name, content, err)
}

// isAboutGateways reports whether an event is about Gateways and their children, and not about other programs.
func isAboutGateways(event unstructured.Unstructured) bool {
	about, _, _ := unstructured.NestedMap(event.Object, "involvedObject")
	version, _ := about["apiVersion"].(string)
	name, _ := about["name"].(string)
	return strings.HasPrefix(version, appv1.GroupName) || strings.HasPrefix(version, gatewayv1.GroupName) || about["kind"] == "Ingress" ||
		strings.Contains(name, proxypod.ChildName(""))
}

// gateway adds HAProxy's files, as they follow from the objects, and what the proxies run and log.
func (c *collector) gateway(ctx context.Context, gateway *appv1.Gateway) {
	dir := fmt.Sprintf("gateways/%s/%s/", gateway.Namespace, gateway.Name)
	site, err := c.clients.Around(ctx, gateway)
	if err == nil {
		c.missing = append(c.missing, site.Unread...)
		table, _ := site.Compile()
		files := render.Render(site.Input(table)).AllFiles()
		for _, name := range slices.Sorted(maps.Keys(files)) {
			c.add(dir+"haproxy/"+name, files[name], nil)
		}
	} else {
		c.add(dir+"haproxy/haproxy.cfg", nil, err)
	}
	pods, err := c.clients.Core.Pods(gateway.Namespace).List(ctx, metav1.ListOptions{LabelSelector: proxypod.PodSelector(gateway.Name).String()})
	if err != nil {
		c.add(dir+"pods", nil, err)
		return
	}
	for _, answer := range c.clients.AskAll(ctx, pods.Items) {
		err := error(nil)
		if answer.Error != "" {
			err = errors.New(answer.Error)
		}
		c.addJSON(dir+answer.Pod+"/proxy-config.json", answer.Config, err)
	}
	c.logs(ctx, dir, pods.Items)
}

// operators adds the logs of the operators.
func (c *collector) operators(ctx context.Context) {
	pods, err := c.clients.Core.Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: cli.OperatorSelector})
	if err != nil {
		c.add("operators", nil, err)
		return
	}
	c.logs(ctx, "operators/", pods.Items)
}

// logs adds the last lines of all containers of pods.
func (c *collector) logs(ctx context.Context, dir string, pods []corev1.Pod) {
	for i := range pods {
		pod := &pods[i]
		for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
			content, err := c.readLog(ctx, pod, container.Name)
			c.add(fmt.Sprintf("%s%s/%s.log", dir, pod.Name, container.Name), content, err)
		}
	}
}

func (c *collector) readLog(ctx context.Context, pod *corev1.Pod, container string) ([]byte, error) {
	stream, err := c.clients.Core.Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{
		Container: container, TailLines: &c.tail, Timestamps: true, LimitBytes: new(int64(maxLog)),
	}).Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer stream.Close() //nolint:errcheck // all was read
	content, err := io.ReadAll(stream)
	var clean bytes.Buffer
	for line := range bytes.Lines(content) {
		clean.Write(append(bytes.TrimRight(c.log(bytes.TrimRight(line, "\n")), "\n"), '\n'))
	}
	return clean.Bytes(), err
}
