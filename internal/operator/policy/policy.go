// Package policy is what the administrator allows Gateways to ask for, by flags of the operator. Authors of Gateways
// may not be meant to open load balancers, or to choose nodes.
package policy

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	appv1 "gateway/api/app/v1"
)

// Policy is what is allowed. The zero value allows everything but ports of nodes, and to watch the cluster.
type Policy struct {
	ServiceTypes, ServiceAnnotations, LoadBalancerClasses, PodPlacement List
	HostPorts                                                           Ports
	ClusterWatch                                                        Namespaces
}

// The names of the flags.
const (
	serviceTypes        = "allowed-service-types"
	serviceAnnotations  = "allowed-service-annotations"
	loadBalancerClasses = "allowed-load-balancer-classes"
	podPlacement        = "allowed-pod-placement"
	hostPorts           = "allowed-host-ports"
	clusterWatch        = "cluster-watch-namespaces"
)

// AddFlags adds the flags for p.
func (p *Policy) AddFlags(flags *flag.FlagSet) {
	flags.Var(&p.ServiceTypes, serviceTypes, "`types` that spec.service.type may have, such as ClusterIP,NodePort. Default: all. "+
		"Another type makes the condition Accepted False, and the Service stays as it is")
	flags.Var(&p.ServiceAnnotations, serviceAnnotations, "`keys` that spec.service.annotations may have. Default: all. "+
		"A * at the end stands for any characters: external-dns.alpha.kubernetes.io/*")
	flags.Var(&p.LoadBalancerClasses, loadBalancerClasses, "`classes` that spec.service.loadBalancerClass may have. Default: all. "+
		"An empty entry allows a Gateway to set none, as in internal, with the comma")
	flags.Var(&p.PodPlacement, podPlacement, "`fields` of spec.pods that Gateways may set: nodeSelector, tolerations, affinity, "+
		"topologySpreadConstraints, priorityClassName, and kind for DaemonSets. Default: all. If another is set, the pods stay as they are")
	flags.Var(&p.HostPorts, hostPorts, "`ports` of the nodes that Gateways may take by spec.pods.hostPorts, such as 80,443. Default: none. "+
		"With a listener on another port, the pods stay as they are. A Gateway that may take any port may take the ports of kubelet and of the API server")
	flags.Var(&p.ClusterWatch, clusterWatch, "`namespaces` whose Gateways may have spec.watch Cluster. Default: none. Whoever may create pods "+
		"there can read the routes, policies, Services and EndpointSlices of all namespaces. It needs the permissions in artifacts/cluster-watch")
}

// Namespaces are those whose Gateways may do something.
type Namespaces []string

// String returns the namespaces as they are given in a flag.
func (n *Namespaces) String() string {
	if n == nil {
		return ""
	}
	return strings.Join(*n, ",")
}

// Set reads the namespaces from a flag.
func (n *Namespaces) Set(text string) error {
	*n = nil
	for name := range strings.SplitSeq(text, ",") {
		if len(validation.IsDNS1123Label(name)) > 0 {
			return fmt.Errorf("%q is no namespace: write names like infra,edge", name)
		}
		*n = append(*n, name)
	}
	return nil
}

// MayWatchCluster reports whether the proxies of a Gateway are to watch all namespaces, and may.
func (p *Policy) MayWatchCluster(gateway *appv1.Gateway) bool {
	return gateway.Spec.Watch == appv1.WatchCluster && slices.Contains(p.ClusterWatch, gateway.Namespace)
}

// List are the allowed values. A * at the end of a value stands for any rest. Nil allows everything.
type List []string

// String returns the list as it is given in a flag.
func (l *List) String() string {
	if l == nil || *l == nil {
		return "*"
	}
	return strings.Join(*l, ",")
}

// Set reads the list from a flag. The text "" is a list of one empty entry.
func (l *List) Set(text string) error {
	*l = strings.Split(text, ",")
	return nil
}

func (l *List) allows(value string) bool {
	return *l == nil || slices.ContainsFunc(*l, func(entry string) bool {
		start, open := strings.CutSuffix(entry, "*")
		return entry == value || open && strings.HasPrefix(value, start)
	})
}

// Ports are the allowed ports.
type Ports []int32

// String returns the ports as they are given in a flag.
func (p *Ports) String() string {
	if p == nil {
		return ""
	}
	var texts []string
	for _, port := range *p {
		texts = append(texts, strconv.Itoa(int(port)))
	}
	return strings.Join(texts, ",")
}

// Set reads the ports from a flag.
func (p *Ports) Set(text string) error {
	*p = nil
	for field := range strings.SplitSeq(text, ",") {
		port, err := strconv.ParseUint(field, 10, 16)
		if err != nil || port == 0 {
			return fmt.Errorf("%q is no port: write ports like 80,443", field)
		}
		*p = append(*p, int32(port))
	}
	return nil
}

// Refusals are what a Gateway asks for and may not have, for the author of the Gateway.
type Refusals struct {
	// Service and Pods are about the Service, and about the Deployment or DaemonSet.
	Service, Pods []string
}

// Check returns what a Gateway asks for and may not have.
func (p *Policy) Check(gateway *appv1.Gateway) Refusals {
	var r Refusals
	service, pods := &gateway.Spec.Service, &gateway.Spec.Pods
	kind := cmp.Or(service.Type, corev1.ServiceTypeLoadBalancer)
	refuse(&r.Service, &p.ServiceTypes, serviceTypes, string(kind), "spec.service.type "+string(kind))
	if kind == corev1.ServiceTypeLoadBalancer {
		name := "spec.service without a loadBalancerClass"
		if service.LoadBalancerClass != "" {
			name = "spec.service.loadBalancerClass " + service.LoadBalancerClass
		}
		refuse(&r.Service, &p.LoadBalancerClasses, loadBalancerClasses, service.LoadBalancerClass, name)
	}
	for _, key := range slices.Sorted(maps.Keys(service.Annotations)) {
		refuse(&r.Service, &p.ServiceAnnotations, serviceAnnotations, key, "the key "+key+" in spec.service.annotations")
	}
	for _, field := range []struct {
		name string
		set  bool
	}{
		{"nodeSelector", len(pods.NodeSelector) > 0},
		{"tolerations", len(pods.Tolerations) > 0},
		{"affinity", pods.Affinity != nil},
		{"topologySpreadConstraints", len(pods.TopologySpreadConstraints) > 0},
		{"priorityClassName", pods.PriorityClassName != ""},
		{"kind", pods.Kind == appv1.PodsKindDaemonSet},
	} {
		if field.set {
			refuse(&r.Pods, &p.PodPlacement, podPlacement, field.name, "spec.pods."+field.name)
		}
	}
	if pods.HostPorts {
		r.Pods = append(r.Pods, p.checkPorts(gateway.Spec.Listeners)...)
	}
	return r
}

// checkPorts returns which listeners may not have their port on the nodes.
func (p *Policy) checkPorts(listeners []appv1.Listener) []string {
	var refused []string
	for _, listener := range listeners {
		if !slices.Contains(p.HostPorts, listener.Port) {
			refused = append(refused, fmt.Sprintf("spec.pods.hostPorts with the port %d of listener %s is not allowed: the operator has -%s=%s",
				listener.Port, listener.Name, hostPorts, &p.HostPorts))
		}
	}
	return refused
}

func refuse(refusals *[]string, list *List, flag, value, what string) {
	if !list.allows(value) {
		*refusals = append(*refusals, fmt.Sprintf("%s is not allowed: the operator has -%s=%s", what, flag, list))
	}
}
