package agent

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	routesfake "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned/fake"

	appv1 "gateway/api/app/v1"
	gatewayfake "gateway/generated/app/clientset/versioned/fake"
	"gateway/internal/certtest"
	"gateway/internal/model"
	"gateway/internal/must"
)

const bundleName = "example.com:signer:v1"

// newBundleRig returns a rig whose Gateway sends requests to an endpoint that an authority has signed, which a
// ClusterTrustBundle has to have.
func newBundleRig(t *testing.T, authority *certtest.Authority) *rig {
	t.Helper()
	r := newRig(t)
	pair := authority.Issue(t, []string{"api.internal"})
	certificate, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	r.must(err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	r.must(err)
	server := &http.Server{
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Connection", "close") // one that stays open was verified before
			_, _ = io.WriteString(w, "secure")
		}),
	}
	go func() { _ = server.ServeTLS(listener, "", "") }()
	t.Cleanup(func() { _ = server.Close() })
	r.createService("secure")
	r.createSlice("secure", "one", &endpoint{port: int32(listener.Addr().(*net.TCPAddr).Port)})
	spec := r.spec("secure")
	spec.Backends = []appv1.Backend{{Name: "secure", Port: 80, TLS: &appv1.BackendTLS{
		Hostname: "api.internal", CACertificateRefs: []appv1.ObjectReference{{Name: model.TrustBundle(bundleName)}},
	}}}
	r.createGateway(spec)
	return r
}

// putBundle creates or replaces the ClusterTrustBundle; "": it goes.
func (r *rig) putBundle(content string) {
	r.t.Helper()
	client := r.core.CertificatesV1().ClusterTrustBundles()
	err := client.Delete(r.t.Context(), bundleName, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		r.must(err)
	}
	if content == "" {
		return
	}
	_, err = client.Create(r.t.Context(), &certificatesv1.ClusterTrustBundle{
		ObjectMeta: metav1.ObjectMeta{Name: bundleName}, Spec: certificatesv1.ClusterTrustBundleSpec{TrustBundle: content},
	}, metav1.CreateOptions{})
	r.must(err)
}

// expectBundleProblem waits until the pod reports the problems of the ClusterTrustBundle; "": none.
func (r *rig) expectBundleProblem(want string) {
	r.t.Helper()
	r.eventually("the problem is reported", func() error {
		report, err := r.reported()
		got := ""
		for _, problem := range report.Problems {
			if problem.Origin.Kind == kindBundle && problem.Origin.Name == bundleName && problem.Reason == appv1.ProblemInvalidCACertificateRef {
				got += problem.Message
			}
		}
		if err == nil && (want == "") == (got == "") && strings.HasPrefix(got, want) {
			return nil
		}
		return errors.Join(err, fmt.Errorf("it is %q, not %q", got, want))
	})
}

// TestTrustBundle: backends are verified by a ClusterTrustBundle as it is now. Without one, nothing is sent to them.
func TestTrustBundle(t *testing.T) {
	t.Parallel()
	authority, other := certtest.NewAuthority(t), certtest.NewAuthority(t)
	r := newBundleRig(t, authority)
	r.putBundle(string(authority.PEM))
	r.startAgent()
	r.startHAProxy()
	r.expectBody("/", "secure")
	r.expectBundleProblem("")
	running := r.process()

	const name = "ClusterTrustBundle " + bundleName + ": "
	r.putBundle("")
	r.expectStatus("/", http.StatusInternalServerError)
	r.expectBundleProblem(name + "it does not exist")
	r.putBundle("no certificates")
	r.expectBundleProblem(name + "spec.trustBundle")
	r.expectStatus("/", http.StatusInternalServerError)
	r.putBundle(string(other.PEM))
	r.expectBundleProblem("")
	r.expectStatus("/", http.StatusServiceUnavailable) // no connection is made
	r.putBundle(string(other.PEM) + string(authority.PEM))
	r.expectBody("/", "secure")
	r.expectNoReload(running)
}

// TestTrustBundlesAreAwaited: what needs one waits until the API server has listed them, for a while.
func TestTrustBundlesAreAwaited(t *testing.T) {
	t.Parallel()
	authority := certtest.NewAuthority(t)
	r := newBundleRig(t, authority)
	r.putBundle(string(authority.PEM))
	asked, answer := make(chan struct{}, 100), make(chan struct{})
	r.core.PrependReactor("list", resourceBundles, func(clienttesting.Action) (bool, runtime.Object, error) {
		asked <- struct{}{}
		<-answer
		return false, nil, nil
	})
	r.startAgent()
	<-asked
	if err := r.agent.probes.started(); err == nil {
		t.Error("there is a configuration without the certificates")
	}
	close(answer)
	r.startHAProxy()
	status, body, err := r.get("/")
	if r.must(err); status != http.StatusOK || body != "secure" {
		t.Errorf("the first answer is %d %s", status, body)
	}
}

// TestWithoutTrustBundles: an API server without ClusterTrustBundles, or one that refuses to list them, keeps closed
// what needs them.
func TestWithoutTrustBundles(t *testing.T) {
	t.Parallel()
	resource := schema.GroupResource{Group: certificatesv1.GroupName, Resource: resourceBundles}
	for want, err := range map[string]error{
		"the API server has no ClusterTrustBundles of certificates.k8s.io/v1": apierrors.NewNotFound(resource, ""),
		"the API server lets the pod read no ClusterTrustBundles: it needs":   apierrors.NewForbidden(resource, "", nil),
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			r := newBundleRig(t, certtest.NewAuthority(t))
			for _, verb := range []string{"list", "watch"} {
				r.core.PrependReactor(verb, resourceBundles, func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err })
			}
			r.core.PrependWatchReactor(resourceBundles, clienttesting.DefaultWatchReactor(nil, err))
			r.startAgent()
			r.startHAProxy()
			r.expectBundleProblem("ClusterTrustBundle " + bundleName + ": " + want)
			r.expectStatus("/", http.StatusInternalServerError)
		})
	}
}

// TestBundlesStay: what was listed once counts while the API server refuses to list it again, such as one of several
// that runs an earlier release.
func TestBundlesStay(t *testing.T) {
	resource := schema.GroupResource{Group: certificatesv1.GroupName, Resource: resourceBundles}
	w := newWatcher(Options{Namespace: "web", Gateway: "shop", Core: kubefake.NewClientset(), Gateways: gatewayfake.NewClientset(), Routes: routesfake.NewClientset()})
	if _, _, known := w.bundle("a"); known {
		t.Error("it is known before it is listed")
	}
	bundle := &certificatesv1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "1"}, Spec: certificatesv1.ClusterTrustBundleSpec{TrustBundle: "pem"}}
	must.Do(t, w.bundles.Replace([]any{bundle}, "1"))
	for _, err := range []error{apierrors.NewForbidden(resource, "", nil), apierrors.NewForbidden(resource, "", nil), apierrors.NewNotFound(resource, "")} {
		w.bundles.refused(err)
		if content, problem, known := w.bundle("a"); content != "pem" || problem != "" || !known {
			t.Errorf("after %v, it is %q, %q, %t", err, content, problem, known)
		}
	}
}

// TestBundleOf: while nothing is known of a ClusterTrustBundle, that is a problem after a while. What was read is read
// again once it changed.
func TestBundleOf(t *testing.T) {
	now := time.Unix(1000, 0)
	var content, problem string
	known := false
	b := newBundles(func(string) (string, string, bool) { return content, problem, known })
	if _, due := b.of("a", now); !due.Equal(now.Add(unknownTime)) {
		t.Errorf("it is due at %s", due)
	}
	if file, due := b.of("a", now.Add(unknownTime)); file.problem == "" || !due.IsZero() {
		t.Errorf("later, it is %+v", file)
	}
	known, problem = true, "it does not exist"
	if file, _ := b.of("a", now); file.problem != problem {
		t.Errorf("it is %+v", file)
	}
	content, problem = string(certtest.NewAuthority(t).PEM), ""
	if file, _ := b.of("a", now); file.problem == "" {
		t.Error("it is read though it did not change")
	}
	b.forget()
	if file, _ := b.of("a", now); file.problem != "" || len(file.pem) == 0 {
		t.Errorf("it is %+v", file)
	}
	if file, due := newBundles(nil).of("a", now); file.problem == "" || !due.IsZero() {
		t.Errorf("without an API server, it is %+v", file)
	}
}
