// Package operator tests the built operator from outside, on a real API server: the children of a Gateway, its status,
// and how the operator starts, stops and hands over. The operator runs with the permissions in artifacts/rbac. There
// is no controller manager, and no node but in TestSpread: the tests write the EndpointSlices and reports that those
// would write.
package operator

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	appv1 "gateway/api/app/v1"
	"gateway/internal/must"
	"gateway/internal/testbuild"
	"gateway/test/internal/testenv"
)

const (
	operatorNamespace = "gateway-system"
	operatorName      = "gateway-operator"
	operatorUser      = "system:serviceaccount:" + operatorNamespace + ":" + operatorName

	// soon is enough for anything the operator does at once, on a loaded machine.
	soon = 20 * time.Second
)

var server *testenv.Server

func TestMain(m *testing.M) { testenv.Main(m, &server, true) }

// operator is a running operator.
type operator struct {
	*testenv.Program
	// address is where it serves health and metrics.
	address string
}

// startOperator starts an operator that works in one namespace, made here, and has a lease of its own there: so the
// tests do not disturb one another.
func startOperator(t *testing.T, namespace string, arguments ...string) *operator {
	t.Helper()
	ensureNamespace(t, operatorNamespace)
	ensureNamespace(t, namespace)
	arguments = append([]string{"-kubeconfig=" + operatorKubeconfig(t), "-logtostderr", "-v=2", "-health-address=127.0.0.1:0",
		"-namespace=" + namespace, "-leader-elect-namespace=" + operatorNamespace, "-leader-elect-name=" + namespace}, arguments...)
	o := &operator{Program: testenv.Start(t, nil, testbuild.Program(t, "."), arguments...)}
	testenv.Eventually(t, soon, "the operator starts", func(context.Context) error {
		_, address, found := strings.Cut(o.Output(), "health and metrics on ")
		if !found {
			return errors.Join(errors.New("it has not logged its address"), o.Running())
		}
		o.address, _, _ = strings.Cut(address, "\n")
		return nil
	})
	return o
}

const leading = "Looking after Gateways"

// leads is nil if the operator has the lease and works.
func (o *operator) leads(context.Context) error {
	if err := o.Running(); err != nil {
		return err
	}
	if !strings.Contains(o.Output(), leading) {
		return fmt.Errorf("the operator has not logged %q", leading)
	}
	return nil
}

// operatorKubeconfig returns the path of a kubeconfig of the operator's ServiceAccount, with the permissions in
// artifacts/rbac.
func operatorKubeconfig(t *testing.T) string {
	t.Helper()
	server.Kubectl(t, "apply", "--server-side", "--force-conflicts", "-f", filepath.Join(testbuild.MustRoot(t), "artifacts", "rbac"))
	return tokenKubeconfig(t, operatorNamespace, operatorName)
}

func tokenKubeconfig(t *testing.T, namespace, serviceAccount string) string {
	t.Helper()
	return server.TokenKubeconfig(t, token(t, namespace, serviceAccount))
}

func token(t *testing.T, namespace, serviceAccount string) string {
	t.Helper()
	token := must.Get(server.Kube.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), serviceAccount,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](3600)}},
		metav1.CreateOptions{}))(t)
	return token.Status.Token
}

// ensureNamespace makes a namespace where only pods of the restricted Pod Security Standard are admitted.
func ensureNamespace(t *testing.T, name string) {
	t.Helper()
	_, err := server.Kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

// createGateway makes a Gateway from the YAML of its spec.
func createGateway(t *testing.T, namespace, name, spec string) *appv1.Gateway {
	t.Helper()
	gateway := &appv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	must.Do(t, yaml.UnmarshalStrict([]byte(spec), &gateway.Spec))
	created := must.Get(server.App.AppV1().Gateways(namespace).Create(t.Context(), gateway, metav1.CreateOptions{}))(t)
	return created
}

// expectCondition waits until a condition of the Gateway has the status, the reason and the text in its message, and
// returns the Gateway.
func expectCondition(t *testing.T, namespace, name, kind string, status metav1.ConditionStatus, reason, text string) *appv1.Gateway {
	t.Helper()
	var gateway *appv1.Gateway
	testenv.Eventually(t, soon, "condition "+kind, func(ctx context.Context) error {
		var err error
		if gateway, err = server.App.AppV1().Gateways(namespace).Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
		for _, c := range gateway.Status.Conditions {
			if c.Type == kind && c.Status == status && c.Reason == reason && strings.Contains(c.Message, text) &&
				c.ObservedGeneration == gateway.Generation {
				return nil
			}
		}
		return fmt.Errorf("generation %d has the conditions %+v, want %s=%s, reason %s, message with %q",
			gateway.Generation, gateway.Status.Conditions, kind, status, reason, text)
	})
	return gateway
}

// expectEvent waits for an event about the Gateway.
func expectEvent(t *testing.T, namespace, name, kind, reason, text string) {
	t.Helper()
	testenv.Eventually(t, soon, "event "+reason, func(ctx context.Context) error {
		events, err := server.Kube.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + name})
		if err != nil {
			return err
		}
		var seen []string
		for _, e := range events.Items {
			if e.InvolvedObject.Kind == "Gateway" && e.Type == kind && e.Reason == reason && strings.Contains(e.Message, text) {
				return nil
			}
			seen = append(seen, fmt.Sprintf("%s %s %q", e.Type, e.Reason, e.Message))
		}
		return fmt.Errorf("there is no %s event %s with %q, only %q", kind, reason, text, seen)
	})
}

// apiServer is the server's host and port.
func apiServer() string { return strings.Trim(strings.TrimPrefix(server.Admin.Host, "https:"), "/") }
