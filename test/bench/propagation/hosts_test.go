package propagation

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"gateway/internal/certtest"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/proxypod"
	"gateway/internal/source/gatewayapi"
	"gateway/internal/testbuild"
	"gateway/test/internal/testenv"
)

// hosts is a Gateway whose hosts teams bring, with certificates, in ListenerSets of their namespaces.
type hosts struct {
	*shared
	// prefix begins the names of hosts, and secure is the port for HTTPS.
	prefix    string
	secure    int32
	authority *certtest.Authority
	roots     *x509.CertPool
	// all are those that there are.
	all  []*host
	sets int
	keys *keyServer
	// sockets are WebSockets that stay open.
	sockets []*socket
}

// host is one with a certificate. The Secret, the listener and the HTTPRoute have its name.
type host struct {
	name, namespace, set string
	pair                 certtest.Pair
}

func (h *host) hostname() string { return h.name + ".example.com" }

// otherName is another name that the certificate is for.
func (h *host) otherName() string { return "other-" + h.hostname() }

// BenchmarkHosts measures what hosts with certificates cost: HOSTS of them in SETS ListenerSets of NAMESPACES
// namespaces, at one Gateway with PODS pods. Ratios are to a bare HAProxy with the same crt-list, and to a Gateway with
// ten hosts.
func BenchmarkHosts(b *testing.B) {
	ten := "ten hosts"
	count := parameter(b, "HOSTS", "200")
	h := newHosts(b)
	small := h.small(b)
	run := func(name string, scenario func(b *testing.B)) {
		b.Run(fmt.Sprintf("hosts=%d/%s", count, name), scenario)
	}
	run("created", func(b *testing.B) {
		b.Helper()
		h.create(b, count, parameter(b, "SETS", fmt.Sprint(max(1, count/10))))
	})
	run("started-together", func(b *testing.B) {
		b.Helper()
		h.startAll(b, parameter(b, "PODS", "3"))
	})
	b.Run(ten, func(b *testing.B) {
		small.create(b, 10, 1)
		small.startAll(b, 1)
	})
	run("bare", func(b *testing.B) {
		b.Helper()
		h.compare(b, small)
	})
	run("handshakes", func(b *testing.B) {
		b.Helper()
		h.compareHandshakes(b, small)
	})
	h.openSockets(50)
	run("new-host", h.bringNew)
	run("renewal", h.renew)
	run("edit", h.edit)
	run("burst", h.burst)
	run("new-pod", h.replacePod)
}

// newHosts returns a Gateway without hosts, its operator, and a key server.
func newHosts(b *testing.B) *hosts {
	b.Helper()
	keys := startKeyServer(b)
	s := newShared(b, "cluster-wide", "-key-server="+keys.address, "-key-server-ca="+keys.authority)
	h := &hosts{shared: s, prefix: "h", secure: haproxytest.FreePort(b), authority: certtest.NewAuthority(b), keys: keys}
	h.roots = h.authority.Pool()
	testbuild.Program(b, "cmd/gateway-keys") // it is not built while the time is taken
	h.allowListeners(b)
	return h
}

// small returns another Gateway of the same operator.
func (h *hosts) small(b *testing.B) *hosts {
	b.Helper()
	w := h.in(b, 0, "small")
	w.createGateway(b, string(gatewayapi.ControllerName))
	at := &hosts{
		shared: &shared{world: w, b: b, namespaces: 1}, prefix: "t", secure: h.secure, authority: h.authority, roots: h.roots, keys: h.keys,
	}
	at.allowListeners(b)
	return at
}

// allowListeners lets all namespaces have ListenerSets.
func (h *hosts) allowListeners(b *testing.B) {
	b.Helper()
	_, err := h.api.GatewayV1().Gateways(h.namespace).Patch(b.Context(), gatewayName, types.MergePatchType,
		[]byte(`{"spec": {"allowedListeners": {"namespaces": {"from": "All"}}}}`), metav1.PatchOptions{})
	must(b, err)
}

// host returns the host with a number. Its ListenerSet is one of the first ones, or a new one.
func (h *hosts) host(b *testing.B, i int) *host {
	b.Helper()
	set := i
	if i < len(h.all) || len(h.all) == 0 {
		set = i % h.sets
	}
	one := &host{name: fmt.Sprint(h.prefix, i), namespace: h.team(i), set: fmt.Sprint(h.prefix, "-set-", set)}
	one.pair = h.authority.Issue(b, []string{one.hostname(), one.otherName()})
	return one
}

// team is the namespace of a host.
func (h *hosts) team(i int) string { return fmt.Sprintf("team-%d", i%h.namespaces) }

// create measures how long it takes to make hosts, which no pod serves yet.
func (h *hosts) create(b *testing.B, count, sets int) {
	b.Helper()
	h.sets = sets - sets%h.namespaces // so that each is in one namespace
	h.sets = max(h.sets, h.namespaces)
	all := make([]*host, count)
	atOnce(count, func(i int) { all[i] = h.host(b, i) })
	begin, operator, cpu := time.Now(), testenv.CPU(h.operator.PID()), server.CPU(b)
	h.createSecrets(b, all)
	bySet := map[string][]*host{}
	for _, one := range all {
		bySet[one.set] = append(bySet[one.set], one)
	}
	atOnce(h.sets, func(i int) { h.createSet(b, bySet[fmt.Sprint(h.prefix, "-set-", i)]) })
	atOnce(count, func(i int) { h.createHostRoute(b, all[i]) })
	h.all = all
	b.ReportMetric(time.Since(begin).Seconds(), "s-until-created")
	h.settleHosts(b)
	b.ReportMetric(time.Since(begin).Seconds(), "s-until-Accepted")
	h.rest(b)
	b.ReportMetric((testenv.CPU(h.operator.PID()) - operator).Seconds(), "operator-CPU-s")
	b.ReportMetric((server.CPU(b) - cpu).Seconds(), "apiserver-CPU-s")
	b.ReportMetric(memory(b, h.operator.PID()), "operator-MiB")
	b.ReportMetric(0, "ns/op")
}

// createSecrets makes the certificates of hosts.
func (h *hosts) createSecrets(b *testing.B, all []*host) {
	b.Helper()
	atOnce(len(all), func(i int) {
		_, err := server.Kube.CoreV1().Secrets(all[i].namespace).Create(b.Context(), all[i].secret(), metav1.CreateOptions{})
		must(b, err)
	})
}

func (h *host) secret() *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: h.name}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: h.pair.Certificate, corev1.TLSPrivateKeyKey: h.pair.Key},
	}
}

// createSet makes a ListenerSet of hosts.
func (h *hosts) createSet(b *testing.B, all []*host) {
	b.Helper()
	if len(all) == 0 {
		return
	}
	set := &gatewayv1.ListenerSet{ObjectMeta: metav1.ObjectMeta{Name: all[0].set}}
	set.Spec.ParentRef = gatewayv1.ParentGatewayReference{Name: gatewayName, Namespace: ptr.To(gatewayv1.Namespace(h.namespace))}
	for _, one := range all {
		set.Spec.Listeners = append(set.Spec.Listeners, gatewayv1.ListenerEntry{
			Name: gatewayv1.SectionName(one.name), Hostname: ptr.To(gatewayv1.Hostname(one.hostname())), Port: h.secure, Protocol: gatewayv1.HTTPSProtocolType,
			TLS: &gatewayv1.ListenerTLSConfig{CertificateRefs: []gatewayv1.SecretObjectReference{{Name: gatewayv1.ObjectName(one.name)}}},
		})
	}
	_, err := h.api.GatewayV1().ListenerSets(all[0].namespace).Create(b.Context(), set, metav1.CreateOptions{})
	must(b, err)
}

// createHostRoute makes the HTTPRoute of a host.
func (h *hosts) createHostRoute(b *testing.B, one *host) {
	b.Helper()
	at := *h.world
	at.namespace = one.namespace
	route := at.routeOf(one.namespace, one.name, one.hostname(), "/", backendRef("zero", 1))
	route.Spec.Hostnames = append(route.Spec.Hostnames, gatewayv1.Hostname(one.otherName()))
	route.Spec.ParentRefs = []gatewayv1.ParentReference{{
		Group: ptr.To(gatewayv1.Group(gatewayv1.GroupName)), Kind: ptr.To(gatewayv1.Kind("ListenerSet")), Name: gatewayv1.ObjectName(one.set),
		SectionName: ptr.To(gatewayv1.SectionName(one.name)),
	}}
	_, err := h.api.GatewayV1().HTTPRoutes(one.namespace).Create(b.Context(), route, metav1.CreateOptions{})
	must(b, err)
}

// settleHosts waits until the HTTPRoutes of all hosts are accepted.
func (h *hosts) settleHosts(b *testing.B) {
	b.Helper()
	testenv.Eventually(b, long, "all routes to be accepted", func(ctx context.Context) error {
		all, err := h.api.GatewayV1().HTTPRoutes(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		accepted := 0
		for i := range all.Items {
			for _, parent := range all.Items[i].Status.Parents {
				isAccepted := meta.IsStatusConditionTrue(parent.Conditions, string(gatewayv1.RouteConditionAccepted))
				if isAccepted && strings.HasPrefix(all.Items[i].Name, h.prefix) {
					accepted++
				}
			}
		}
		if accepted < len(h.all) {
			time.Sleep(seldom)
			return fmt.Errorf("%d of %d are", accepted, len(h.all))
		}
		return nil
	})
}

// deployment is what the operator has made of the Gateway.
func (h *hosts) deployment(b *testing.B) (template string) {
	b.Helper()
	deployment, err := server.Kube.AppsV1().Deployments(h.namespace).Get(b.Context(), proxypod.ChildName(gatewayName), metav1.GetOptions{})
	must(b, err)
	text, err := json.Marshal(deployment.Spec.Template)
	must(b, err)
	return string(text)
}
