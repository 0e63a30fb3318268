// Package faults breaks what is between the built operator, the built agent with a real HAProxy, and a real API server,
// and looks what they make of it: traffic goes on, the status is true again soon after, and nothing is left over. There
// is no controller manager and no node: the tests write what those would.
package faults

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

	"gateway/internal/must"
	"gateway/internal/testbuild"
	"gateway/test/internal/faultproxy"
	"gateway/test/internal/testenv"
)

const (
	operatorNamespace = "gateway-system"
	operatorUser      = "system:serviceaccount:gateway-system:gateway-operator"
	// name is the name of the Gateway in every namespace, and pod the name of its only pod.
	name = "web"
	pod  = "pod"
	// soon is enough for anything that happens at once, on a loaded machine.
	soon = 20 * time.Second
	// promised is how long after the end of a fault the status has to be true again.
	promised = 5 * time.Second
)

var server *testenv.Server

func TestMain(m *testing.M) { testenv.Main(m, &server, true) }

func ensureNamespace(t *testing.T, name string) {
	t.Helper()
	_, err := server.Kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}},
		metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

// kubeconfig returns the path of one for a ServiceAccount, which reaches the API server through the proxy if there is
// one.
func kubeconfig(t *testing.T, proxy *faultproxy.Proxy, namespace, serviceAccount string) string {
	t.Helper()
	token := must.Get(server.Kube.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), serviceAccount,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](7200)}}, metav1.CreateOptions{}))(t)
	return tokenKubeconfig(t, proxy, token.Status.Token)
}

func tokenKubeconfig(t *testing.T, proxy *faultproxy.Proxy, token string) string {
	t.Helper()
	if proxy == nil {
		return server.TokenKubeconfig(t, token)
	}
	return testenv.WriteKubeconfig(t, proxy.URL, proxy.Authority, token)
}

// operator is a running operator.
type operator struct {
	*testenv.Program
	// address is where it serves health and metrics.
	address string
	// again starts another one like it.
	again func() *testenv.Program
}

// startOperator starts an operator for one namespace, with a lease of its own there and the permissions in
// artifacts/rbac.
func startOperator(t *testing.T, proxy *faultproxy.Proxy, namespace string, arguments ...string) *operator {
	t.Helper()
	return startOperatorAs(t, testbuild.Program(t, "."), nil, proxy, namespace, arguments...)
}

func startOperatorAs(t *testing.T, program string, env []string, proxy *faultproxy.Proxy, namespace string, arguments ...string) *operator {
	t.Helper()
	ensureNamespace(t, operatorNamespace)
	ensureNamespace(t, namespace)
	server.Kubectl(t, "apply", "--server-side", "--force-conflicts", "-f", filepath.Join(testbuild.MustRoot(t), "artifacts", "rbac"))
	arguments = append([]string{"-kubeconfig=" + kubeconfig(t, proxy, operatorNamespace, "gateway-operator"), "-logtostderr",
		"-health-address=127.0.0.1:0", "-namespace=" + namespace, "-leader-elect-namespace=" + operatorNamespace,
		"-leader-elect-name=" + namespace}, arguments...)
	again := func() *testenv.Program { return testenv.Start(t, env, program, arguments...) }
	o := &operator{Program: again(), again: again}
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

// leads is nil if the operator has the lease and works.
func (o *operator) leads(context.Context) error {
	if err := o.Running(); err != nil {
		return err
	}
	if !strings.Contains(o.Output(), "Looking after Gateways") {
		return fmt.Errorf("the operator does not work yet")
	}
	return nil
}
