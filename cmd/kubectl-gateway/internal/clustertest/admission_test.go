package clustertest

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	appv1 "gateway/api/app/v1"
	"gateway/cmd/kubectl-gateway/internal/admission"
	"gateway/internal/must"
)

const (
	listener = "spec: {listeners: [{name: http, port: 80, protocol: HTTP}"
	rule     = listener + "], routes: [{name: r, rules: [{"
)

// specs are admitted, or refused for reasons of all kinds that the CRD has.
var specs = map[string]string{
	"the least":                   listener + "]}",
	"no spec":                     "spec: {}",
	"HTTPS without tls":           listener + ", {name: a, port: 443, protocol: HTTPS}]}",
	"the same listener twice":     listener + ", {name: http, port: 81, protocol: HTTP}]}",
	"the same port twice":         listener + ", {name: b, port: 80, protocol: HTTP}]}",
	"a reserved port":             "spec: {listeners: [{name: http, port: 8404, protocol: HTTP}]}",
	"an unknown protocol":         "spec: {listeners: [{name: http, port: 80, protocol: UDP}]}",
	"two classes of errors":       "spec: {listeners: [{name: HTTP, port: 80, protocol: HTTP}, {name: b, port: 80, protocol: UDP}]}",
	"a port that is a string":     "spec: {listeners: [{name: http, port: '80', protocol: HTTP}]}",
	"an unknown field":            listener + "], snippet: abort}",
	"unknown fields deep down":    rule + "matches: [{path: {valeu: /}}, {}], match: []}]}]}",
	"a negative weight":           rule + "backendRefs: [{name: s, port: 80, weight: -90}]}]}]}",
	"a duration of days":          rule + "timeouts: {request: 1d}}]}]}",
	"a retry without a timeout":   rule + "timeouts: {request: 1s}, retry: {}}]}]}",
	"an unknown listener":         rule[:len(rule)-len("rules: [{")] + "listeners: [none], rules: [{}]}]}",
	"a path that climbs":          rule + "matches: [{path: {value: /a/../b}}]}]}]}",
	"an expression that is none":  rule + "matches: [{path: {type: RegularExpression, value: '/('}}]}]}]}",
	"a filter of two kinds":       rule + "filters: [{type: CORS, directResponse: {statusCode: 200}}]}]}]}",
	"a framing header":            rule + "filters: [{type: RequestHeaderModifier, requestHeaderModifier: {remove: [Content_Length]}}]}]}]}",
	"credentials from anywhere":   rule + "filters: [{type: CORS, cors: {allowOrigins: ['*'], allowCredentials: true}}]}]}]}",
	"nothing where there is some": rule + "matches: null, timeouts: null, backendRefs: [{name: s, port: 80, weight: null}]}]}]}",
	"a bad quantity":              listener + "], pods: {resources: {limits: {cpu: much}}}}",
	"a negative quantity":         listener + "], pods: {resources: {limits: {memory: -1Gi}}}}",
	"a number for an annotation":  listener + "], service: {annotations: {a: 1}}}",
	"a bad label":                 "metadata: {labels: {a b: c}}\n" + listener + "]}",
}

// filterSpecs are specs of RouteFilters.
var filterSpecs = map[string]string{
	"both filters":            "spec: {filters: [{type: ClientAddress, clientAddress: {deny: [10.0.0.0/8]}}, {type: RateLimit, rateLimit: {limits: [{requests: 1, unit: Hour}]}}]}",
	"stored answers of users": "spec: {filters: [{type: Cache, cache: {}}, {type: BasicAuth, basicAuth: {secretRef: {name: a}}}]}",
	"no filter":               "spec: {filters: []}",
	"a filter twice":          "spec: {filters: [{type: RateLimit, rateLimit: {limits: [{requests: 1, unit: Hour}]}}, {type: RateLimit, rateLimit: {limits: [{requests: 1, unit: Hour}]}}]}",
	"another filter":          "spec: {filters: [{type: DirectResponse, directResponse: {body: a}}]}",
	"no setting of a filter":  "spec: {filters: [{type: RateLimit}]}",
	"no range of addresses":   "spec: {filters: [{type: ClientAddress, clientAddress: {allow: [office]}}]}",
	"an unknown field":        "spec: {filters: [{type: RateLimit, rateLimit: {limits: [{requests: 1, unit: Hour, burst: 1}]}}]}",
}

var configSpecs = map[string]string{
	"some settings":         "spec: {replicas: 2, service: {type: ClusterIP}, filters: [{type: RateLimit, rateLimit: {limits: [{requests: 1, unit: Hour}]}}]}",
	"a filter of rules":     "spec: {filters: [{type: Cache, cache: {}}]}",
	"no range of addresses": "spec: {filters: [{type: ClientAddress, clientAddress: {allow: [office]}}]}",
	"an unknown field":      "spec: {listeners: []}",
	"too many replicas":     "spec: {replicas: 1000}",
}

var policySpecs = map[string]string{
	"some settings":      "spec: {targetRefs: [{name: a}], loadBalancing: {algorithm: RoundRobin}, healthCheck: {}, outlierDetection: {}}",
	"no setting":         "spec: {targetRefs: [{name: a}]}",
	"no Service":         "spec: {proxyProtocol: V2}",
	"a Service twice":    "spec: {targetRefs: [{name: a}, {name: a}], proxyProtocol: V2}",
	"outliers unchecked": "spec: {targetRefs: [{name: a}], outlierDetection: {}}",
	"an unknown field":   "spec: {targetRefs: [{name: a}], tls: {}}",
}

// TestAdmission compares what the plugin says offline with what the API server says.
func TestAdmission(t *testing.T) {
	testAdmission(t, "Gateway", "gateways", specs)
	testAdmission(t, "RouteFilter", "routefilters", filterSpecs)
	testAdmission(t, "BackendPolicy", "backendpolicies", policySpecs)
	testAdmission(t, "GatewayConfig", "gatewayconfigs", configSpecs)
}

func testAdmission(t *testing.T, kind, resource string, specs map[string]string) {
	t.Helper()
	client := dynamic.NewForConfigOrDie(clients.Config).Resource(appv1.SchemeGroupVersion.WithResource(resource)).Namespace("default")
	for why, spec := range specs {
		t.Run(kind+" "+why, func(t *testing.T) {
			object := &unstructured.Unstructured{}
			content := must.Get(yaml.YAMLToJSON([]byte("{apiVersion: app.example.com/v1, kind: " + kind + ", " + strings.ReplaceAll(spec, "\n", ", ") + "}")))(t)
			must.Do(t, object.UnmarshalJSON(content))
			object.SetName("a")
			object.SetNamespace("default")
			options := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict}
			stored, refusal := client.Create(t.Context(), object, options)
			offline := admission.Admit(object)
			if (offline == nil) != (refusal == nil) {
				t.Fatalf("the API server says %v, the plugin %v", refusal, offline)
			}
			if refusal == nil {
				got, want := object.Object["spec"], stored.Object["spec"]
				if !maps.EqualFunc(got.(map[string]any), want.(map[string]any), equal) {
					t.Errorf("the API server stores %v, the plugin takes %v", want, got)
				}
				return
			}
			for _, cause := range causes(refusal) {
				if !strings.Contains(offline.Error(), cause) {
					t.Errorf("the API server says %q, the plugin only %q", cause, offline)
				}
			}
		})
	}
}

func equal(a, b any) bool {
	x, errX := yaml.Marshal(a)
	y, errY := yaml.Marshal(b)
	return errors.Join(errX, errY) == nil && string(x) == string(y)
}

// causes returns the API server's error for an object.
func causes(err error) []string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		_, unknown, _ := strings.Cut(err.Error(), "strict decoding error: ")
		return strings.Split(unknown, ", ")
	}
	var all []string
	for _, cause := range status.Status().Details.Causes {
		if !strings.Contains(cause.Message, "some validation rules were not checked") {
			all = append(all, cause.Field+": "+cause.Message)
		}
	}
	slices.Sort(all)
	return all
}
