//go:build slow

package keyserver

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"gateway/internal/keystream"
	"gateway/internal/must"
	"gateway/test/internal/testenv"
)

// namespaces have two ListenerSets each, with ten certificates each.
const namespaces, setsEach, certificatesEach = 500, 2, 10

// TestCrowd: 10,000 certificates of 500 namespaces reach 6 pods at once, and a new one reaches them at once.
func TestCrowd(t *testing.T) {
	server.InstallGatewayAPI(t)
	createNamespace(t, "crowd")
	createGateway(t, "crowd", "all", types.NamespacedName{Namespace: "crowd", Name: "own"})
	workqueue.ParallelizeUntil(t.Context(), 32, namespaces, func(i int) { createTeam(t, fmt.Sprint("team-", i)) })
	keys := startKeyServer(t)
	const pods, all = 6, 1 + namespaces*setsEach*certificatesEach
	var tokens []string
	for i := range pods {
		name := fmt.Sprint("all-", i)
		createPod(t, "crowd", "all", name)
		tokens = append(tokens, token(t, "crowd", "all", name, keystream.Audience))
	}
	begun := time.Now()
	keys.watch(t, tokens[0]).count(all)
	t.Logf("the first pod has %d Secrets after %v, from the start of the server; %s", all, time.Since(begun), keys.memory(t))
	begun = time.Now()
	cpu := testenv.CPU(keys.PID())
	var watching []*pod
	for _, token := range tokens {
		watching = append(watching, keys.watch(t, token))
	}
	for _, p := range watching {
		p.count(all)
	}
	t.Logf("%d pods have all of them after %v; CPU %v; %s", pods, time.Since(begun), testenv.CPU(keys.PID())-cpu, keys.memory(t))

	var took []time.Duration
	cpu = testenv.CPU(keys.PID())
	for i := range 20 {
		namespace, name := fmt.Sprint("team-", i), fmt.Sprint("late-", i)
		must.Get(routesClient(t).GatewayV1().ListenerSets(namespace).Create(t.Context(), listenerSet(namespace, name, 1), metav1.CreateOptions{}))(t)
		for _, p := range watching {
			p.count(1) // it learns that there is none
		}
		begun := time.Now()
		must.Get(server.Kube.CoreV1().Secrets(namespace).Create(t.Context(), large(namespace, name+"-0"), metav1.CreateOptions{}))(t)
		for _, p := range watching {
			p.count(1)
		}
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	t.Logf("a new Secret reaches all pods after %v (median), %v (most), from before its creation; CPU for 20 with their ListenerSets %v",
		took[len(took)/2], took[len(took)-1], testenv.CPU(keys.PID())-cpu)
}

// createTeam makes a namespace with ListenerSets and their certificates.
func createTeam(t *testing.T, namespace string) {
	t.Helper()
	_, err := server.Kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	for i := range setsEach {
		set := listenerSet(namespace, fmt.Sprint("set-", i), certificatesEach)
		_, failed := routesClient(t).GatewayV1().ListenerSets(namespace).Create(t.Context(), set, metav1.CreateOptions{})
		err = errors.Join(err, failed)
		for _, listener := range set.Spec.Listeners {
			name := string(listener.TLS.CertificateRefs[0].Name)
			_, failed := server.Kube.CoreV1().Secrets(namespace).Create(t.Context(), large(namespace, name), metav1.CreateOptions{})
			err = errors.Join(err, failed)
		}
	}
	if err != nil {
		t.Error(err)
	}
}

// listenerSet is one with some listeners, each with a certificate.
func listenerSet(namespace, name string, listeners int) *gatewayv1.ListenerSet {
	set := &gatewayv1.ListenerSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	parent := gatewayv1.Namespace("crowd")
	set.Spec.ParentRef = gatewayv1.ParentGatewayReference{Namespace: &parent, Name: "all"}
	for i := range listeners {
		hostname := gatewayv1.Hostname(fmt.Sprintf("%d.%s.%s.example.com", i, name, namespace))
		set.Spec.Listeners = append(set.Spec.Listeners, gatewayv1.ListenerEntry{
			Name: gatewayv1.SectionName(fmt.Sprint("host-", i)), Port: 443, Protocol: gatewayv1.HTTPSProtocolType, Hostname: &hostname,
			TLS: &gatewayv1.ListenerTLSConfig{CertificateRefs: []gatewayv1.SecretObjectReference{
				{Name: gatewayv1.ObjectName(fmt.Sprintf("%s-%d", name, i))},
			}},
		})
	}
	return set
}

// large returns a Secret as large as one with a certificate and a chain of three.
func large(namespace, name string) *corev1.Secret {
	of := secret(namespace, name)
	of.Data[corev1.TLSCertKey] = bytes.Repeat([]byte(namespace+"/"+name+"\n"), 4400/(len(namespace)+len(name)+2))
	of.Data[corev1.TLSPrivateKeyKey] = bytes.Repeat([]byte("key\n"), 60)
	return of
}

// count waits for some lines.
func (p *pod) count(n int) {
	p.t.Helper()
	for i := range n {
		select {
		case <-p.lines:
		case err := <-p.ended:
			p.t.Fatalf("the stream ended with %v after %d of %d", err, i, n)
		}
	}
}

// memory describes what the server uses.
func (s *keyServer) memory(t *testing.T) string {
	t.Helper()
	content := must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/status", s.PID())))(t)
	var lines []string
	for line := range strings.Lines(string(content)) {
		if strings.HasPrefix(line, "VmHWM") || strings.HasPrefix(line, "RssAnon") {
			lines = append(lines, strings.Join(strings.Fields(line), " "))
		}
	}
	return strings.Join(lines, ", ")
}
