package resources

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/utils/ptr"

	appv1 "gateway/api/app/v1"
	"gateway/internal/must"
	"gateway/internal/proxypod"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata with what the code returns now")

var testOptions = Options{AgentImage: "gateway:test", HAProxyImage: "haproxy:test"}

// children returns every child, in the order they are applied.
func children(gateway *appv1.Gateway) []any {
	all := []any{
		DesiredServiceAccount(gateway),
		DesiredRole(gateway),
		DesiredRoleBinding(gateway),
		DesiredService(gateway, nil),
	}
	if gateway.Spec.Pods.Kind == appv1.PodsKindDaemonSet {
		return append(all, DesiredDaemonSet(gateway, testOptions))
	}
	return append(all, DesiredPodDisruptionBudget(gateway), DesiredDeployment(gateway, testOptions))
}

// TestGolden compares the children of testdata/NAME.in.yaml with testdata/NAME.out.yaml. Run with -update to rewrite
// the latter, and read the difference before you commit it: on users' clusters, it replaces pods.
func TestGolden(t *testing.T) {
	inputs, err := filepath.Glob("testdata/*.in.yaml")
	if err != nil || len(inputs) == 0 {
		t.Fatalf("no test data: %v", err)
	}
	for _, input := range inputs {
		t.Run(strings.TrimSuffix(filepath.Base(input), ".in.yaml"), func(t *testing.T) {
			got := toYAML(t, children(readGateway(t, input)))
			golden := strings.TrimSuffix(input, ".in.yaml") + ".out.yaml"
			if *update {
				must.Do(t, os.WriteFile(golden, got, 0o644))
			}
			want := must.Get(os.ReadFile(golden))(t)
			if !bytes.Equal(got, want) {
				t.Errorf("%s differs from what the code returns; if that is right, go test ./internal/operator/resources -update\n%s", golden, got)
			}
		})
	}
}

// TestMemoryIsLimited: HAProxy has a limit whatever the Gateway says, and no request above it.
func TestMemoryIsLimited(t *testing.T) {
	memory := func(quantity string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(quantity)}
	}
	cpu := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	for name, test := range map[string]struct {
		asked          appv1.PodResources
		limit, request string
	}{
		"nothing":           {appv1.PodResources{}, "1Gi", "128Mi"},
		"a limit":           {appv1.PodResources{Limits: memory("2Gi")}, "2Gi", "0"},
		"a request":         {appv1.PodResources{Requests: memory("64Mi")}, "1Gi", "64Mi"},
		"a large request":   {appv1.PodResources{Requests: memory("3Gi")}, "3Gi", "3Gi"},
		"limits of the CPU": {appv1.PodResources{Limits: cpu, Requests: cpu}, "1Gi", "128Mi"},
	} {
		got := proxyResources(test.asked)
		if got.Requests == nil {
			got.WithRequests(nil)
		}
		if limit, request := got.Limits.Memory().String(), got.Requests.Memory().String(); limit != test.limit || request != test.request {
			t.Errorf("%s: the limit is %s and the request %s, want %s and %s", name, limit, request, test.limit, test.request)
		}
	}
}

func TestRoutesChangeNoChild(t *testing.T) {
	gateway := readGateway(t, "testdata/everything.in.yaml")
	before := children(gateway)
	gateway.Generation++
	gateway.Spec.Routes = append(gateway.Spec.Routes, appv1.Route{
		Name:  "new",
		Rules: []appv1.RouteRule{{BackendRefs: []appv1.BackendRef{{Name: "new", Port: 1}}}},
	})
	if after := children(gateway); !reflect.DeepEqual(before, after) {
		t.Error("a new route changed a child: editing routes must not replace pods")
	}
}

func TestListenersChangeNoPod(t *testing.T) {
	gateway := readGateway(t, "testdata/everything.in.yaml")
	before := DesiredDeployment(gateway, testOptions)
	gateway.Spec.Listeners = append(gateway.Spec.Listeners, appv1.Listener{Name: "new", Port: 81, Protocol: appv1.ProtocolHTTP})
	if after := DesiredDeployment(gateway, testOptions); !reflect.DeepEqual(before, after) {
		t.Error("a new listener changed the Deployment: HAProxy opens ports without a new pod")
	}
	if ports := DesiredService(gateway, nil).Spec.Ports; len(ports) != 3 || *ports[2].Port != 81 {
		t.Errorf("the Service has ports %+v, want the new one, 81, as the third", ports)
	}
}

// TestLostNodes: proxies leave a node that is lost after 30 s, unless the Gateway says otherwise.
func TestLostNodes(t *testing.T) {
	const unreachable, notReady = corev1.TaintNodeUnreachable, corev1.TaintNodeNotReady
	for name, test := range map[string]struct {
		own  []corev1.Toleration
		want string
	}{
		"nothing":           {nil, notReady + " 30 " + unreachable + " 30"},
		"another taint":     {[]corev1.Toleration{{Key: "example.com/edge"}}, "example.com/edge - " + notReady + " 30 " + unreachable + " 30"},
		"another effect":    {[]corev1.Toleration{{Effect: corev1.TaintEffectNoSchedule}}, " - " + notReady + " 30 " + unreachable + " 30"},
		"one of the taints": {[]corev1.Toleration{{Key: unreachable, TolerationSeconds: new(int64(600))}}, unreachable + " 600 " + notReady + " 30"},
		"all taints":        {[]corev1.Toleration{{Operator: corev1.TolerationOpExists}}, " -"},
	} {
		gateway := &appv1.Gateway{Spec: appv1.GatewaySpec{Pods: appv1.PodsSpec{Tolerations: test.own}}}
		var got []string
		for _, toleration := range DesiredDeployment(gateway, testOptions).Spec.Template.Spec.Tolerations {
			seconds := "-"
			if toleration.TolerationSeconds != nil {
				seconds = fmt.Sprint(*toleration.TolerationSeconds)
			}
			got = append(got, ptr.Deref(toleration.Key, "")+" "+seconds)
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s: the tolerations are %q, want %q", name, strings.Join(got, " "), test.want)
		}
	}
}

// TestRolloutsOfADaemonSet: a node has its new pod before the old one ends, but not with ports of the node.
func TestRolloutsOfADaemonSet(t *testing.T) {
	for hostPorts, want := range map[bool]string{false: "0 1", true: "1 0"} {
		gateway := &appv1.Gateway{Spec: appv1.GatewaySpec{Pods: appv1.PodsSpec{Kind: appv1.PodsKindDaemonSet, HostPorts: hostPorts}}}
		rollout := DesiredDaemonSet(gateway, testOptions).Spec.UpdateStrategy.RollingUpdate
		if got := rollout.MaxUnavailable.String() + " " + rollout.MaxSurge.String(); got != want {
			t.Errorf("with hostPorts %v, maxUnavailable and maxSurge are %s, want %s", hostPorts, got, want)
		}
	}
}

// TestPortsKeepTheirNames: kube-proxy refuses connections to a port that gets another name, until it hears of endpoints
// with it.
func TestPortsKeepTheirNames(t *testing.T) {
	live := &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{
		{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP},
		{Name: "https", Port: 443, Protocol: corev1.ProtocolTCP},
		{Name: "quic", Port: 8443, Protocol: corev1.ProtocolUDP},
		{Name: "port-8443", Port: 8444, Protocol: corev1.ProtocolTCP},
	}}}
	type listeners []appv1.Listener
	for name, test := range map[string]struct {
		listeners listeners
		live      *corev1.Service
		want      string
	}{
		"there is no Service yet":           {listeners{{Name: "a", Port: 80}, {Name: "b", Port: 80}, {Name: "c", Port: 443}}, nil, "a=80 c=443"},
		"a listener is renamed":             {listeners{{Name: "web", Port: 80}, {Name: "https", Port: 443}}, live, "http=80 https=443"},
		"listeners swap their names":        {listeners{{Name: "https", Port: 80}, {Name: "http", Port: 443}}, live, "http=80 https=443"},
		"another comes before, on the port": {listeners{{Name: "shop", Port: 443}, {Name: "https", Port: 443}}, live, "https=443"},
		"a listener comes on a port":        {listeners{{Name: "alt", Port: 8080}, {Name: "http", Port: 80}}, live, "alt=8080 http=80"},
		"it has the name of a port's":       {listeners{{Name: "web", Port: 80}, {Name: "http", Port: 8080}}, live, "http=80 port-8080=8080"},
		"a UDP port is another one":         {listeners{{Name: "tls", Port: 8443}}, live, "tls=8443"},
		"no other name is left for it": {
			listeners{{Name: "a", Port: 443}, {Name: "https", Port: 8443}, {Name: "b", Port: 8444}}, live,
			"https=443 port-8444=8443 port-8443=8444",
		},
		"a listener moves to another port":   {listeners{{Name: "http", Port: 8080}}, live, "http=8080"},
		"another one takes its port as well": {listeners{{Name: "http", Port: 8080}, {Name: "old", Port: 80}}, live, "port-8080=8080 http=80"},
	} {
		var got []string
		for _, port := range DesiredService(&appv1.Gateway{Spec: appv1.GatewaySpec{Listeners: test.listeners}}, test.live).Spec.Ports {
			got = append(got, fmt.Sprintf("%s=%d", *port.Name, *port.Port))
		}
		if got := strings.Join(got, " "); got != test.want {
			t.Errorf("%s: got the ports %s, want %s", name, got, test.want)
		}
	}
}

func TestNamesFitTheLongestGateway(t *testing.T) {
	longest := strings.Repeat("a", 55) // what the CRD allows
	if problems := validation.IsDNS1035Label(proxypod.ChildName(longest)); len(problems) > 0 {
		t.Errorf("a Service must not be named %q: %v", proxypod.ChildName(longest), problems)
	}
	for label, value := range childLabels(longest) {
		if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
			t.Errorf("label %s must not be %q: %v", label, value, problems)
		}
	}
	if got, want := proxypod.ChildName("shop"), "shop-gateway"; got != want {
		t.Errorf("the children are named %q, want %q: existing ones would be orphaned", got, want)
	}
}

func readGateway(t *testing.T, path string) *appv1.Gateway {
	t.Helper()
	content := must.Get(os.ReadFile(path))(t)
	var gateway appv1.Gateway
	must.Do(t, yaml.UnmarshalStrict(content, &gateway))
	return &gateway
}

// toYAML writes the children as kubectl would print them.
func toYAML(t *testing.T, children []any) []byte {
	t.Helper()
	serializer := jsonserializer.NewSerializerWithOptions(jsonserializer.DefaultMetaFactory, nil, nil,
		jsonserializer.SerializerOptions{Yaml: true})
	var out bytes.Buffer
	for _, child := range children {
		encoded := must.Get(json.Marshal(child))(t)
		var object unstructured.Unstructured
		must.Do(t, json.Unmarshal(encoded, &object.Object))
		out.WriteString("---\n")
		must.Do(t, serializer.Encode(&object, &out))
	}
	return out.Bytes()
}
