package policy

import (
	"cmp"
	"flag"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	appv1 "gateway/api/app/v1"
	"gateway/internal/must"
)

func TestMayWatchCluster(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		flag, watch string
		want        bool
	}{
		"by default":        {"", "Cluster", false},
		"allowed":           {"infra,web", "Cluster", true},
		"another namespace": {"infra", "Cluster", false},
		"not asked for":     {"web", "Namespaces", false},
	} {
		var p Policy
		flags := flag.NewFlagSet("", flag.ContinueOnError)
		p.AddFlags(flags)
		if test.flag != "" {
			must.Do(t, flags.Parse([]string{"-cluster-watch-namespaces=" + test.flag}))
		}
		gateway := &appv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "web"}, Spec: appv1.GatewaySpec{Watch: appv1.WatchMode(test.watch)}}
		if got := p.MayWatchCluster(gateway); got != test.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
	if err := new(Namespaces).Set("infra, web"); err == nil || err.Error() != `" web" is no namespace: write names like infra,edge` {
		t.Errorf("got %v", err)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		flags, spec string
		// service and pods are the fields that are refused.
		service, pods []string
	}{
		"everything, by default": {"", `{service: {type: NodePort, annotations: {a: b}}, pods: {priorityClassName: a, affinity: {}}}`, nil, nil},
		"a type":                 {"-allowed-service-types=ClusterIP,NodePort", `{service: {type: LoadBalancer}}`, []string{"spec.service.type LoadBalancer"}, nil},
		"the default type":       {"-allowed-service-types=ClusterIP", `{}`, []string{"spec.service.type LoadBalancer"}, nil},
		"a type that is allowed": {"-allowed-service-types=ClusterIP,NodePort", `{service: {type: NodePort}}`, nil, nil},
		"a class": {
			"-allowed-load-balancer-classes=internal", `{service: {loadBalancerClass: public}}`,
			[]string{"spec.service.loadBalancerClass public"}, nil,
		},
		"the default class": {
			"-allowed-load-balancer-classes=internal", `{service: {type: LoadBalancer}}`,
			[]string{"spec.service without a loadBalancerClass"}, nil,
		},
		"the default class, allowed":  {"-allowed-load-balancer-classes=internal,", `{service: {type: LoadBalancer}}`, nil, nil},
		"no class but the default":    {"-allowed-load-balancer-classes=", `{service: {loadBalancerClass: a}}`, []string{"spec.service.loadBalancerClass a"}, nil},
		"no load balancer, no class":  {"-allowed-load-balancer-classes=internal", `{service: {type: ClusterIP}}`, nil, nil},
		"annotations":                 {"-allowed-service-annotations=a/*,b", `{service: {annotations: {a/x: "", b: "", bb: "", c: ""}}}`, []string{"bb", "c"}, nil},
		"no annotations":              {"-allowed-service-annotations=", `{service: {annotations: {a: ""}}}`, []string{"a in spec.service.annotations"}, nil},
		"no annotations, nor wanted":  {"-allowed-service-annotations=", `{}`, nil, nil},
		"where pods run":              {"-allowed-pod-placement=", `{pods: {nodeSelector: {a: b}, tolerations: [{}], affinity: {}, topologySpreadConstraints: [{}], priorityClassName: a, kind: DaemonSet, labels: {a: b}}}`, nil, []string{"nodeSelector", "tolerations", "affinity", "topologySpreadConstraints", "priorityClassName", "kind"}},
		"where pods run, some of it":  {"-allowed-pod-placement=nodeSelector", `{pods: {nodeSelector: {a: b}, priorityClassName: a}}`, nil, []string{"spec.pods.priorityClassName"}},
		"where pods run, not asked":   {"-allowed-pod-placement=", `{pods: {labels: {a: b}, resources: {}, kind: Deployment}}`, nil, nil},
		"ports of nodes, by default":  {"", `{listeners: [{name: a, port: 80}], pods: {hostPorts: true}}`, nil, []string{"spec.pods.hostPorts with the port 80 of listener a"}},
		"ports of nodes":              {"-allowed-host-ports=80,443", `{listeners: [{name: a, port: 80}, {name: b, port: 6443}, {name: c, port: 10250}], pods: {hostPorts: true}}`, nil, []string{"port 6443 of listener b", "port 10250 of listener c"}},
		"ports of nodes, allowed":     {"-allowed-host-ports=80,443", `{listeners: [{name: a, port: 80}, {name: b, port: 443}], pods: {hostPorts: true}}`, nil, nil},
		"ports of nodes, not asked":   {"-allowed-host-ports=443", `{listeners: [{name: a, port: 80}]}`, nil, nil},
		"everything, as is by itself": {"-allowed-pod-placement=*", `{pods: {priorityClassName: a}}`, nil, nil},
	} {
		var p Policy
		flags := flag.NewFlagSet("", flag.ContinueOnError)
		p.AddFlags(flags)
		must.Do(t, flags.Parse(strings.Fields(test.flags)))
		gateway := &appv1.Gateway{}
		must.Do(t, yaml.UnmarshalStrict([]byte(test.spec), &gateway.Spec))
		got := p.Check(gateway)
		expectRefused(t, name, got.Service, test.service, test.flags)
		expectRefused(t, name, got.Pods, test.pods, test.flags)
	}
}

func expectRefused(t *testing.T, name string, got, want []string, flags string) {
	t.Helper()
	ok := slices.EqualFunc(got, want, func(got, want string) bool {
		return strings.Contains(got, want+" ") && strings.HasSuffix(got, "the operator has "+cmp.Or(flags, "-allowed-host-ports="))
	})
	if !ok {
		t.Errorf("%s: got %q, want them about %q", name, got, want)
	}
}

// TestZero: an operator without flags forbids nothing but ports of nodes.
func TestZero(t *testing.T) {
	t.Parallel()
	gateway := &appv1.Gateway{Spec: appv1.GatewaySpec{
		Service: appv1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Annotations: map[string]string{"a": "b"}},
		Pods:    appv1.PodsSpec{PriorityClassName: "a"},
	}}
	if r := new(Policy).Check(gateway); len(r.Service)+len(r.Pods) > 0 {
		t.Errorf("refused: %+v", r)
	}
}

// TestPorts: what is no port is refused at the operator's start.
func TestPorts(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"http", "80,", "0", "-1", "65536", "80-443", "*", ""} {
		if err := new(Ports).Set(text); err == nil || !strings.Contains(err.Error(), "write ports like 80,443") {
			t.Errorf("%q: got %v", text, err)
		}
	}
	var ports Ports
	if err := ports.Set("80,443"); err != nil || ports.String() != "80,443" {
		t.Errorf("got %s, %v", &ports, err)
	}
}
