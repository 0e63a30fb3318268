// Package conformance runs the Gateway API's own conformance suite: its objects in a real API server, what the source
// makes of them in a real HAProxy for each Gateway, the suite's own echo program for each pod, and the status that the
// source wants. A loop of a few lines is in place of the operator and the agents, and needs no node.
package conformance

import (
	"flag"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayv1beta1 "sigs.k8s.io/gateway-api/apis/v1beta1"
	"sigs.k8s.io/gateway-api/conformance"
	"sigs.k8s.io/gateway-api/conformance/tests"
	"sigs.k8s.io/gateway-api/conformance/utils/suite"
	"sigs.k8s.io/gateway-api/pkg/features"

	"gateway/internal/must"
	"gateway/internal/testtier"
	shared "gateway/test/internal/conformance"
	"gateway/test/internal/testenv"
)

const class = "conformance"

var (
	server *testenv.Server
	only   = flag.String("only", "", "names of the tests to run, separated by commas")
)

// quick are tests that take little time, for each topic.
var quick = []string{
	"GatewayHTTPListenerIsolation", "GatewayInvalidRouteKind", "GatewaySecretMissingReferenceGrant", "GatewayWithAttachedRoutes",
	"GRPCExactMethodMatching", "HTTPRouteCORS", "HTTPRouteCrossNamespace", "HTTPRouteHTTPSListener", "HTTPRouteHeaderMatching",
	"HTTPRouteHostnameIntersection", "HTTPRouteInvalidBackendRefUnknownKind", "HTTPRouteInvalidCrossNamespaceParentRef",
	"HTTPRouteInvalidReferenceGrant", "HTTPRouteMatching", "HTTPRouteMatchingAcrossRoutes", "HTTPRouteRedirectPath",
	"HTTPRouteReferenceGrant", "HTTPRouteRequestMultipleMirrors", "HTTPRouteRewritePath", "HTTPRouteWeight", "ListenerSetHTTPRouting", "ListenerSetHostnameConflict",
	"TCPRouteWeightedRouting", "TLSRouteSimpleSameNamespace", "TLSRouteTerminateSimpleSameNamespace", "BackendTLSPolicyConflictResolution",
}

func TestMain(m *testing.M) { testenv.Main(m, &server, true) }

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme,
		gatewayv1.Install, gatewayv1beta1.Install,
	} {
		must.Do(t, add(scheme))
	}
	return scheme
}

// TestConformance runs the tests of what is supported: without the build tag slow, the quick ones.
func TestConformance(t *testing.T) {
	server.InstallGatewayAPI(t)
	scheme := newScheme(t)
	c := must.Get(client.New(server.Admin, client.Options{Scheme: scheme}))(t)
	logs := &podLogs{}
	startCluster(t, c, scheme, logs)
	s := must.Get(suite.NewConformanceTestSuite(suite.ConformanceOptions{
		Client: c, ClientOptions: client.Options{Scheme: scheme}, Clientset: server.Kube, RestConfig: logs.config(server.Admin),
		ManifestFS: []fs.FS{&conformance.Manifests},
		ConfigurableOptions: suite.ConfigurableOptions{
			GatewayClassName: class, SupportedFeatures: shared.Supported(features.SupportGatewayInfrastructure, features.SupportGatewayStaticAddresses), CleanupTestResources: true, TimeoutConfig: shared.Timeouts(20 * time.Second),
			AllowCRDsMismatch: true,
			// At the same time, one test's ReferenceGrants would be another's too.
			DisableParallelTests: true,
		},
	}))(t)
	names := quick
	if *only != "" {
		names = strings.Split(*only, ",")
	}
	var wanted []suite.ConformanceTest
	for _, test := range tests.ConformanceTests {
		if testtier.All && *only == "" || slices.Contains(names, test.ShortName) {
			wanted = append(wanted, test)
		}
	}
	s.Setup(t, wanted)
	if err := s.Run(t, wanted); err != nil {
		t.Error(err)
	}
}
