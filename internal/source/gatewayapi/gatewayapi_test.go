package gatewayapi_test

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/gateway-api/apisx/v1alpha1"
	"sigs.k8s.io/yaml"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/filters"
	"gateway/internal/model"
	"gateway/internal/must"
	"gateway/internal/routing"
	"gateway/internal/source/gatewayapi"
)

var update = flag.Bool("update", false, "write what is made of the objects in testdata")

// TestGolden: what is made of the objects in testdata, and said of them, is what is written there.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("there is no testdata: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			result := gatewayapi.Translate(read(t, file))
			got := describe(result)
			if again := describe(result); again != got {
				t.Errorf("what is asked twice has another answer:\n%s\nafter\n%s", again, got)
			}
			golden := strings.TrimSuffix(file, ".yaml") + ".txt"
			if *update {
				must.Do(t, os.WriteFile(golden, []byte(got), 0o600))
			}
			if want, _ := os.ReadFile(golden); got != string(want) {
				t.Errorf("%s: got\n%s\nwant\n%s", file, got, want)
			}
		})
	}
}

// read returns the objects of a file. A Service, Secret or ConfigMap that is not in it does not exist.
func read(t *testing.T, file string) gatewayapi.Objects {
	t.Helper()
	content := must.Get(os.ReadFile(file))(t)
	return parseAll(t, content)
}

// parseAll returns the objects of a text, as read does.
func parseAll(t *testing.T, content []byte) gatewayapi.Objects {
	t.Helper()
	objects := gatewayapi.Objects{Namespaces: map[string]labels.Set{}}
	services, others := map[string]*corev1.Service{}, map[string]bool{}
	for _, document := range bytes.Split(content, []byte("\n---\n")) {
		var head metav1.PartialObjectMetadata
		if err := yaml.Unmarshal(document, &head); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		name := head.Namespace + "/" + head.Name
		switch head.Kind {
		case "Namespace":
			objects.Namespaces[head.Name] = labels.Merge(head.Labels, labels.Set{corev1.LabelMetadataName: head.Name})
		case "Service", "ServiceImport":
			services[head.Namespace+"/"+serviceName(&head)] = parse[corev1.Service](t, document)
		case "Secret", "ConfigMap", "ClusterTrustBundle":
			others[head.Kind+" "+name] = true
		case "GatewayClass":
			objects.Classes = append(objects.Classes, parse[gatewayv1.GatewayClass](t, document))
		case "Gateway":
			if strings.HasPrefix(head.APIVersion, appv1.GroupName) {
				objects.Own = append(objects.Own, parse[appv1.Gateway](t, document))
			} else {
				objects.Gateways = append(objects.Gateways, parse[gatewayv1.Gateway](t, document))
			}
		case "ListenerSet":
			objects.ListenerSets = append(objects.ListenerSets, parse[gatewayv1.ListenerSet](t, document))
		case "HTTPRoute":
			objects.HTTPRoutes = append(objects.HTTPRoutes, parse[gatewayv1.HTTPRoute](t, document))
		case "GRPCRoute":
			objects.GRPCRoutes = append(objects.GRPCRoutes, parse[gatewayv1.GRPCRoute](t, document))
		case "TLSRoute":
			objects.TLSRoutes = append(objects.TLSRoutes, parse[gatewayv1.TLSRoute](t, document))
		case "TCPRoute":
			objects.TCPRoutes = append(objects.TCPRoutes, parse[gatewayv1.TCPRoute](t, document))
		case "UDPRoute":
			objects.UDPRoutes = append(objects.UDPRoutes, parse[gatewayv1.UDPRoute](t, document))
		case "BackendTLSPolicy":
			objects.Policies = append(objects.Policies, parse[gatewayv1.BackendTLSPolicy](t, document))
		case "GatewayConfig":
			config := parse[appv1.GatewayConfig](t, document)
			objects.Config = func(namespace, name string) *appv1.GatewayConfig { // there is one at most
				if namespace == config.Namespace && name == config.Name {
					return config
				}
				return nil
			}
		case "XTelemetryPolicy":
			objects.Telemetry = append(objects.Telemetry, parse[v1alpha1.XTelemetryPolicy](t, document))
		case "BackendPolicy":
			objects.BackendPolicies = append(objects.BackendPolicies, parse[appv1.BackendPolicy](t, document))
		case "RouteFilter":
			objects.Filters = append(objects.Filters, parse[appv1.RouteFilter](t, document))
		case "ReferenceGrant":
			objects.Grants = append(objects.Grants, parse[gatewayv1.ReferenceGrant](t, document))
		default:
			t.Fatalf("unknown kind %q", head.Kind)
		}
	}
	addFunctions(&objects, services, others)
	return objects
}

// serviceName is the name of a Service, or of what stands for a ServiceImport.
func serviceName(head *metav1.PartialObjectMetadata) string {
	if head.Kind == "ServiceImport" {
		return model.ServiceImport(head.Name)
	}
	return head.Name
}

// addFunctions lets the source ask for what it does not get whole.
func addFunctions(objects *gatewayapi.Objects, services map[string]*corev1.Service, others map[string]bool) {
	objects.Service = func(namespace, name string) (*corev1.Service, bool) { return services[namespace+"/"+name], true }
	objects.Reported = func(of gatewayapi.Subject) gatewayapi.Report {
		kind := "Secret"
		if of.Reason == appv1.ProblemInvalidCACertificateRef || of.Reason == appv1.ProblemInvalidKeysRef {
			kind = "ConfigMap"
			if of.Namespace == "" {
				kind = "ClusterTrustBundle"
			}
		}
		if others[kind+" "+of.Namespace+"/"+of.Name] {
			return gatewayapi.Report{}
		}
		return gatewayapi.Report{Problem: kind + " " + of.Namespace + "/" + of.Name + " does not exist"}
	}
}

func parse[T any](t *testing.T, document []byte) *T {
	t.Helper()
	object := new(T)
	if err := yaml.UnmarshalStrict(document, object); err != nil {
		t.Fatalf("%v in\n%s", err, document)
	}
	return object
}

// allLive reports whether everything is live.
type allLive struct{}

func (allLive) Plane(gatewayapi.Parent) (live bool, reason, message string) { return true, "", "" }
func (allLive) Missing(gatewayapi.Parent, gatewayapi.Needs) string          { return "" }
func (allLive) Unreadable(gatewayapi.Parent, string) string                 { return "" }
func (allLive) Addresses(gatewayapi.Parent) []gatewayv1.GatewayStatusAddress {
	return []gatewayv1.GatewayStatusAddress{{Value: "192.0.2.1"}}
}
func (allLive) ClusterIPs(gatewayapi.Parent) []string { return []string{"10.96.0.1"} }

// describeDataPlanes writes down what has to be there for the Gateways, and what their pods have to watch and mount.
func describeDataPlanes(b *strings.Builder, result *gatewayapi.Result) {
	for _, plane := range result.DataPlanes() {
		fmt.Fprintf(b, "data plane %s/%s\n", plane.Gateway.Namespace, plane.Name)
		if plane.Spec != nil {
			if plane.Spec.Service.Address != "" {
				fmt.Fprintf(b, "  address %s\n", plane.Spec.Service.Address)
			}
			for _, listener := range plane.Spec.Listeners {
				fmt.Fprintf(b, "  listener %s port %d protocol %s hostname %q tls %v\n", listener.Name, listener.Port, listener.Protocol, listener.Hostname, listener.TLS)
			}
			if tracing := plane.Spec.Tracing; tracing != nil {
				fmt.Fprintf(b, "  tracing to %s, %d of a million\n", tracing.Endpoint, ptr.Deref(tracing.SamplingRatePerMillion, -1))
			}
			if ref := plane.Spec.BackendClientCertificateRef; ref != nil {
				fmt.Fprintf(b, "  backends are shown %s\n", ref.Name)
			}
		}
	}
	for _, parent := range slices.SortedFunc(maps.Keys(result.Planes), func(a, b gatewayapi.Parent) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) }) {
		attachments := result.Attachments(parent, gatewayapi.WatchedResources)
		if len(attachments) == 0 {
			continue
		}
		fmt.Fprintf(b, "attachments of %s %s/%s\n", parent.Group, parent.Namespace, parent.Name)
		for _, name := range slices.Sorted(maps.Keys(attachments)) {
			describeAttachment(b, name, attachments[name])
		}
	}
}

func describeAttachment(b *strings.Builder, name string, namespace appv1.GatewayAttachmentSpec) {
	fmt.Fprintf(b, "  namespace %s labels %v: %s\n", name, namespace.Labels, strings.Join(namespace.Resources, " "))
	for _, configMap := range namespace.ConfigMaps {
		fmt.Fprintf(b, "    ConfigMap %s\n", configMap.Name)
	}
	for _, secret := range namespace.Users {
		fmt.Fprintf(b, "    Secret %s with users\n", secret.Name)
	}
	if namespace.VerifiesNames {
		fmt.Fprintf(b, "    names that HAProxy cannot verify\n")
	}
	if namespace.WAF {
		fmt.Fprintf(b, "    requests to look at\n")
	}
}

// describePlanes writes down what is made of objects, and returns the problems of the models.
func describePlanes(b *strings.Builder, result *gatewayapi.Result) []model.Problem {
	var problems []model.Problem
	for _, parent := range slices.SortedFunc(maps.Keys(result.Planes), func(a, b gatewayapi.Parent) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) }) {
		plane := result.Planes[parent]
		fmt.Fprintf(b, "%s %s/%s\n", parent.Group, parent.Namespace, parent.Name)
		describePlane(b, plane)
		compiler := &routing.Compiler{Check: filters.Problem}
		problems = slices.Concat(problems, compiler.Problems(plane), compiler.Unreachable())
	}
	b.WriteString("\n")
	describeDataPlanes(b, result)
	for _, target := range result.IdleTargets() {
		fmt.Fprintf(b, "idle, missing %t: %s\n", target.Missing, target.Message)
	}
	return problems
}

// describe writes down what is made of objects, and their status.
func describe(result *gatewayapi.Result) string {
	var b strings.Builder
	problems := describePlanes(&b, result)
	status := result.Status(problems, allLive{})
	for _, name := range slices.Sorted(maps.Keys(status.Classes)) {
		fmt.Fprintf(&b, "GatewayClass %s:%s\n", name, conditions(status.Classes[name].Conditions))
	}
	for _, name := range names(status.Gateways) {
		gateway := status.Gateways[name]
		fmt.Fprintf(&b, "Gateway %s: %d sets%s\n", name, *gateway.AttachedListenerSets, conditions(gateway.Conditions))
		for _, l := range gateway.Listeners {
			fmt.Fprintf(&b, "  %s: %d routes of %s%s\n", l.Name, l.AttachedRoutes, kinds(l.SupportedKinds), conditions(l.Conditions))
		}
	}
	for _, name := range names(status.ListenerSets) {
		fmt.Fprintf(&b, "ListenerSet %s:%s\n", name, conditions(status.ListenerSets[name].Conditions))
		for _, l := range status.ListenerSets[name].Listeners {
			fmt.Fprintf(&b, "  %s: %d routes of %s%s\n", l.Name, l.AttachedRoutes, kinds(l.SupportedKinds), conditions(l.Conditions))
		}
	}
	for _, name := range names(status.Routes) {
		for _, parent := range status.Routes[name] {
			section := ""
			if parent.ParentRef.SectionName != nil {
				section = "/" + string(*parent.ParentRef.SectionName)
			}
			fmt.Fprintf(&b, "%s %s/%s at %s%s:%s\n", name.Kind, name.Namespace, name.Name, parent.ParentRef.Name, section, conditions(parent.Conditions))
		}
	}
	for _, name := range names(status.Policies) {
		for _, ancestor := range status.Policies[name] {
			fmt.Fprintf(&b, "BackendTLSPolicy %s at %s:%s\n", name, ancestor.AncestorRef.Name, conditions(ancestor.Conditions))
		}
	}
	for _, name := range names(status.Telemetry) {
		for _, ancestor := range status.Telemetry[name] {
			fmt.Fprintf(&b, "XTelemetryPolicy %s at %s:%s\n", name, ancestor.AncestorRef.Name, conditions(ancestor.Conditions))
		}
	}
	for _, name := range names(status.BackendPolicies) {
		for _, ancestor := range status.BackendPolicies[name] {
			fmt.Fprintf(&b, "BackendPolicy %s at %s %s:%s\n", name, ancestor.AncestorRef.Group, ancestor.AncestorRef.Name, conditions(ancestor.Conditions))
		}
	}
	return b.String()
}

func describePlane(b *strings.Builder, plane *model.Gateway) {
	for _, l := range plane.Listeners {
		fmt.Fprintf(b, "  listener %s %s %d %q", l.Name, l.Protocol, l.Port, l.Hostname)
		if l.TLS != nil {
			fmt.Fprintf(b, " %v %v %t", l.TLS.Secrets, l.TLS.ClientCAs, l.TLS.ClientRequired)
		}
		b.WriteString("\n")
	}
	for route := range plane.Routes.Values() {
		fmt.Fprintf(b, "  route %s at %v for %q\n", route.Name, route.Listeners, route.Hostnames)
		for _, rule := range route.Rules {
			for _, match := range rule.Matches {
				fmt.Fprintf(b, "    %s\n", plain(match))
			}
			for _, target := range rule.Backends {
				changes := struct {
					model.HeaderChanges
					Rewrite *model.Rewrite
				}{target.Headers, target.Rewrite}
				fmt.Fprintf(b, "      to %s weight %d %s\n", target.Backend, target.Weight, plain(changes))
			}
			action := *rule.Action
			action.Refused = "" // the status says it
			if text := plain(action); text != "{}" {
				fmt.Fprintf(b, "      %s\n", text)
			}
		}
	}
	if plane.BackendCertificate != "" {
		fmt.Fprintf(b, "  backends are shown %s\n", plane.BackendCertificate)
	}
	for _, backend := range slices.SortedFunc(maps.Keys(plane.Policies), model.CompareBackends) {
		policy := plane.Policies[backend]
		fmt.Fprintf(b, "  policy %s %s\n", backend, plain(policy))
	}
}

// unset matches names of endpoints that are not there.
var unset = regexp.MustCompile(` (DNSNames|URIs):<nil>`)

// plain writes a value without what is zero.
func plain(value any) string {
	content, err := yaml.Marshal(value)
	if err != nil {
		return err.Error()
	}
	var all map[string]any
	_ = yaml.Unmarshal(content, &all)
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		switch text := fmt.Sprint(all[name]); text {
		case "0", "<nil>", "", "false", "map[Request:<nil> Response:<nil>]", "map[Namespace: Port:0 Service:]":
		default:
			parts = append(parts, name+":"+unset.ReplaceAllString(text, ""))
		}
	}
	return "{" + strings.Join(parts, " ") + "}"
}

// usual matches conditions of what has nothing wrong with it.
var usual = regexp.MustCompile(` Conflicted=False\(NoConflicts\)| AddressesAssigned=True(@[0-9]+)?`)

func conditions(all []metav1.Condition) string {
	text := ""
	for _, c := range all {
		text += " " + c.Type + "=" + string(c.Status)
		if c.Reason != c.Type {
			text += "(" + c.Reason + ")"
		}
		if c.ObservedGeneration != 0 {
			text += fmt.Sprintf("@%d", c.ObservedGeneration)
		}
		if c.Message != "" {
			text += fmt.Sprintf(" %q", c.Message)
		}
	}
	return usual.ReplaceAllString(text, "")
}

func kinds(all []gatewayv1.RouteGroupKind) string {
	var names []string
	for _, kind := range all {
		names = append(names, string(kind.Kind))
	}
	return "[" + strings.Join(names, " ") + "]"
}

func names[K comparable, V any](all map[K]V) []K {
	return slices.SortedFunc(maps.Keys(all), func(a, b K) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
}
