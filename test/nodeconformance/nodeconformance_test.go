// Package nodeconformance runs the Gateway API's own conformance suite on a cluster with nodes, TEST_KUBECONFIG's. The
// operator, the CRDs and the suite's image are in it: hack/conformance.sh does that.
package nodeconformance

import (
	"flag"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayv1beta1 "sigs.k8s.io/gateway-api/apis/v1beta1"
	"sigs.k8s.io/gateway-api/conformance"
	confv1 "sigs.k8s.io/gateway-api/conformance/apis/v1"
	"sigs.k8s.io/gateway-api/conformance/tests"
	"sigs.k8s.io/gateway-api/conformance/utils/suite"
	"sigs.k8s.io/yaml"

	"gateway/internal/must"
	"gateway/internal/version"
	shared "gateway/test/internal/conformance"
)

var (
	only   = flag.String("only", "", "names of the tests to run, separated by commas; all if empty")
	class  = flag.String("class", "conformance", "name of the GatewayClass")
	report = flag.String("report", "", "file to write the report to")
	// The class of the suite has Services of type ClusterIP.
	clusterIP = flag.String("cluster-ip", "10.96.200.200", "a cluster IP that no Service has")
)

// TestConformance runs the tests of the supported features, for all profiles but a mesh's.
func TestConformance(t *testing.T) {
	config := must.Get(clientcmd.BuildConfigFromFlags("", os.Getenv("TEST_KUBECONFIG")))(t)
	config.QPS = -1
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme,
		gatewayv1.Install, gatewayv1beta1.Install,
	} {
		must.Do(t, add(scheme))
	}
	c := must.Get(client.New(config, client.Options{Scheme: scheme}))(t)
	clientset := must.Get(kubernetes.NewForConfig(config))(t)
	options := suite.ConformanceOptions{
		Client: c, ClientOptions: client.Options{Scheme: scheme}, Clientset: clientset, RestConfig: config,
		ManifestFS: []fs.FS{&conformance.Manifests},
		ConfigurableOptions: suite.ConfigurableOptions{
			GatewayClassName: *class, SupportedFeatures: shared.Supported(), CleanupTestResources: true,
			TimeoutConfig:          shared.Timeouts(2 * time.Minute), // kubelet takes a minute to mount a changed ConfigMap
			UsableNetworkAddresses: addresses(*clusterIP), UnusableNetworkAddresses: addresses("192.0.2.1"),
			AllowCRDsMismatch: true, DisableParallelTests: true,
			ConformanceProfiles: []suite.ConformanceProfileName{
				suite.GatewayHTTPConformanceProfileName, suite.GatewayGRPCConformanceProfileName,
				suite.GatewayTLSConformanceProfileName, suite.GatewayTCPConformanceProfileName,
			},
			Implementation: confv1.Implementation{
				Organization: "gateway", Project: "gateway", URL: "https://app.example.com/gateway", Version: version.String(),
				Contact: []string{"@gateway"},
			},
		},
	}
	s := must.Get(suite.NewConformanceTestSuite(options))(t)
	wanted := tests.ConformanceTests
	if *only != "" {
		wanted = nil
		for _, test := range tests.ConformanceTests {
			if strings.Contains(","+*only+",", ","+test.ShortName+",") {
				wanted = append(wanted, test)
			}
		}
	}
	s.Setup(t, wanted)
	if *report != "" {
		t.Cleanup(func() { writeReport(t, s) }) // after the run's, which ends it
	}
	if err := s.Run(t, wanted); err != nil {
		t.Error(err)
	}
}

func addresses(value string) []gatewayv1.GatewaySpecAddress {
	kind := gatewayv1.IPAddressType
	return []gatewayv1.GatewaySpecAddress{{Type: &kind, Value: value}}
}

func writeReport(t *testing.T, s *suite.ConformanceTestSuite) {
	t.Helper()
	result := must.Get(s.Report())(t)
	content := must.Get(yaml.Marshal(result))(t)
	must.Do(t, os.WriteFile(*report, content, 0o600))
}
