// Package examples applies every example to a real API server, compiles it, and lets HAProxy check the result.
package examples

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/filters"
	"gateway/internal/must"
	"gateway/internal/routing"
	source "gateway/internal/source/appv1"
	"gateway/internal/testbuild"
	"gateway/test/internal/examples"
	"gateway/test/internal/testenv"
)

var server *testenv.Server

func TestMain(m *testing.M) { testenv.Main(m, &server, true) }

// all are the examples, by their files: a new one is tested without being named here.
func all(t *testing.T) []examples.Example {
	t.Helper()
	all := must.Get(examples.Load(testbuild.MustRoot(t)))(t)
	return all
}

// forEach runs a subtest for every example, after the backends of them all were applied.
func forEach(t *testing.T, test func(t *testing.T, example examples.Example)) {
	t.Helper()
	all := all(t)
	applyBackends(t, all[0])
	for _, example := range all {
		t.Run(example.Name, func(t *testing.T) {
			t.Parallel()
			test(t, example)
		})
	}
}

var backends sync.Once

// applyBackends makes the namespace, too.
func applyBackends(t *testing.T, example examples.Example) {
	t.Helper()
	backends.Do(func() {
		for _, object := range example.Objects {
			apply(t, object)
		}
	})
}

// applier finds out once what the server has.
var applier = sync.OnceValues(func() (*examples.Applier, error) {
	return examples.NewApplier(server.Kube.Discovery(), server.Dynamic)
})

func apply(t *testing.T, object *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	a := must.Get(applier())(t)
	applied := must.Get(a.Apply(t.Context(), object))(t)
	return applied
}

// applyGateway applies all the example has, and returns its Gateway as the server stores it.
func applyGateway(t *testing.T, example examples.Example) *appv1.Gateway {
	t.Helper()
	var gateway *appv1.Gateway
	for _, object := range example.Objects {
		applied := apply(t, object)
		if object.GetKind() != "Gateway" {
			continue
		}
		if gateway != nil {
			t.Fatal("it has more than one Gateway")
		}
		gateway = &appv1.Gateway{}
		must.Do(t, runtime.DefaultUnstructuredConverter.FromUnstructured(applied.Object, gateway))
	}
	if gateway == nil {
		t.Fatal("it has no Gateway")
	}
	return gateway
}

// TestExamples: each example is admitted as it is, all of it has an effect, and what it names exists or is made by a
// command of its comment.
func TestExamples(t *testing.T) {
	t.Parallel()
	forEach(t, func(t *testing.T, example examples.Example) {
		t.Helper()
		gateway := applyGateway(t, example)
		if gateway.Name != example.Name || gateway.Namespace != "shop" {
			t.Errorf("the Gateway is %s/%s, want shop/%s, like the file", gateway.Namespace, gateway.Name, example.Name)
		}
		table, problems := routing.Compile(source.Translate(gateway), filters.Problem)
		for _, problem := range problems {
			t.Errorf("a part has no effect: %s", problem.Message)
		}
		used := map[routing.Backend]bool{}
		for _, backend := range table.Backends() {
			used[backend] = true
			if _, err := servicePort(t, backend); err != nil {
				t.Error(err)
			}
		}
		for backend := range table.Policies {
			if !used[backend] {
				t.Errorf("spec.backends is about Service %s, port %d, which no route names", backend.Service, backend.Port)
			}
		}
		secrets, configMaps := references(gateway)
		for command, names := range map[string][]string{"create secret tls": secrets, "create configmap": configMaps} {
			for _, name := range names {
				if !strings.Contains(example.Comment, command) || !strings.Contains(example.Comment, name) {
					t.Errorf("the comment does not say how to make %s: no %q", name, command)
				}
			}
		}
	})
}

// TestComments: each comment says what the example shows, and has a request that shows it.
func TestComments(t *testing.T) {
	t.Parallel()
	for _, example := range all(t) {
		if len(example.Comment) < 40 || strings.HasPrefix(example.Comment, " ") {
			t.Errorf("%s: begins with no comment that says what it shows", example.Name)
		}
		if example.Name == examples.Backends {
			// The demo shows it.
			continue
		}
		shown := false
		for _, command := range example.Commands {
			shown = shown || strings.Contains(command.Text, "$GATEWAY") && command.Want != ""
		}
		if !shown {
			t.Errorf("%s: the comment has no request to $GATEWAY with a part of the answer", example.Name)
		}
	}
}

// servicePort returns the port of the Service that a backend names.
func servicePort(t *testing.T, backend routing.Backend) (corev1.ServicePort, error) {
	t.Helper()
	service, err := server.Kube.CoreV1().Services("shop").Get(t.Context(), backend.Service, metav1.GetOptions{})
	if err != nil {
		return corev1.ServicePort{}, err
	}
	for _, port := range service.Spec.Ports {
		if port.Port == backend.Port {
			return port, nil
		}
	}
	return corev1.ServicePort{}, fmt.Errorf("Service %s has no port %d", backend.Service, backend.Port)
}

// references returns the names of the Secrets and ConfigMaps that a Gateway needs.
func references(gateway *appv1.Gateway) (secrets, configMaps []string) {
	for _, listener := range gateway.Spec.Listeners {
		if listener.TLS == nil {
			continue
		}
		for _, ref := range listener.TLS.CertificateRefs {
			secrets = append(secrets, ref.Name)
		}
		if validation := listener.TLS.ClientValidation; validation != nil {
			for _, ref := range validation.CACertificateRefs {
				configMaps = append(configMaps, ref.Name)
			}
		}
	}
	for _, backend := range gateway.Spec.Backends {
		if backend.TLS != nil {
			for _, ref := range backend.TLS.CACertificateRefs {
				configMaps = append(configMaps, ref.Name)
			}
		}
	}
	return secrets, configMaps
}
