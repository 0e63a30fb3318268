package prove

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/testbuild"
	"gateway/test/internal/testenv"
)

// certificates is cert-manager with pebble, which issues for hosts that answer at port 80.
type certificates struct {
	*site
	// roots verify what pebble issues.
	roots *x509.CertPool
	// dns is the URL at which names get addresses.
	dns string

	mu sync.Mutex
	// written is when a Secret NAMESPACE/NAME got its certificate.
	written map[string]written
}

type written struct {
	at   time.Time
	leaf *x509.Certificate
}

// moduleDir is where Go has unpacked a module that a module of hack/ names.
func moduleDir(t *testing.T, hack, module string) string {
	t.Helper()
	return strings.TrimSpace(testenv.Run(t, filepath.Join(testbuild.MustRoot(t), "hack", hack), []string{"GOWORK=off"}, "go", "list", "-m", "-f", "{{.Dir}}", module))
}

// startCertManager starts all of it. All names have an address, which is the first proxy's.
func startCertManager(s *site, address string) *certificates {
	t := s.t
	t.Helper()
	c := &certificates{site: s, written: map[string]written{}}
	crds := filepath.Join(moduleDir(t, "cert-manager", "github.com/cert-manager/cert-manager"), "deploy", "crds")
	_, err := envtest.InstallCRDs(server.Admin, envtest.CRDInstallOptions{Paths: []string{crds}, MaxTime: soon})
	must(t, err)
	s.createNamespace("cert-manager")
	dns, management := fmt.Sprintf("127.0.0.1:%d", haproxytest.FreePort(t)), fmt.Sprintf("127.0.0.1:%d", haproxytest.FreePort(t))
	testenv.Start(t, nil, tool(t, "pebble-challtestsrv"), "-defaultIPv4="+address, "-defaultIPv6=", "-dnsserver="+dns, "-management="+management,
		"-http01=", "-https01=", "-tlsalpn01=", "-doh=")
	c.dns = "http://" + management
	c.startPebble(dns)
	c.watchSecrets()
	c.playKubelet()
	testenv.Start(t, nil, tool(t, "cert-manager"), "-kubeconfig="+server.Kubeconfig, "-nameserver="+dns)
	return c
}

// startPebble starts pebble, which asks for each name anew, and the issuers.
func (c *certificates) startPebble(dns string) {
	t := c.t
	t.Helper()
	authority := filepath.Join(moduleDir(t, "pebble", "github.com/letsencrypt/pebble/v2"), "test", "certs")
	acme, management := fmt.Sprintf("127.0.0.1:%d", haproxytest.FreePort(t)), fmt.Sprintf("127.0.0.1:%d", haproxytest.FreePort(t))
	config, err := json.Marshal(map[string]any{"pebble": map[string]any{
		"listenAddress": acme, "managementListenAddress": management, "httpPort": 80, "tlsPort": 443,
		"certificate": filepath.Join(authority, "localhost", "cert.pem"), "privateKey": filepath.Join(authority, "localhost", "key.pem"),
		"retryAfter": map[string]int{"authz": 1, "order": 1},
		"profiles":   map[string]any{"default": map[string]any{"description": "default", "validityPeriod": 7776000}},
	}})
	must(t, err)
	file := filepath.Join(t.TempDir(), "pebble.json")
	must(t, os.WriteFile(file, config, 0o600))
	pebble := testenv.Start(t, []string{"PEBBLE_VA_NOSLEEP=1", "PEBBLE_AUTHZREUSE=0"}, tool(t, "pebble"), "-config="+file, "-dnsserver="+dns)
	root, err := os.ReadFile(filepath.Join(authority, "pebble.minica.pem"))
	must(t, err)
	trusted, roots := x509.NewCertPool(), x509.NewCertPool()
	trusted.AppendCertsFromPEM(root)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}}}
	testenv.Eventually(t, soon, "pebble's root", func(context.Context) error {
		response, err := client.Get("https://" + management + "/roots/0")
		if err != nil {
			return errors.Join(err, pebble.Running())
		}
		defer response.Body.Close() //nolint:errcheck // it was read
		text, err := io.ReadAll(response.Body)
		if err == nil && !roots.AppendCertsFromPEM(text) {
			err = fmt.Errorf("got %q", text)
		}
		return err
	})
	c.roots = roots
	for name, solver := range map[string]string{
		"acme":         "gatewayHTTPRoute: {parentRefs: [{kind: Gateway, name: shop, namespace: infra, sectionName: http}]}",
		"acme-ingress": "ingress: {ingressClassName: gateway}",
	} {
		c.apply(`
apiVersion: cert-manager.io/v1
kind: ClusterIssuer
metadata: {name: %[1]s}
spec:
  acme:
    server: https://%[2]s/dir
    skipTLSVerify: true
    privateKeySecretRef: {name: %[1]s}
    solvers: [{http01: {%[3]s}}]`, name, acme, solver)
	}
}

// setAddress has a name lead to another address.
func (c *certificates) setAddress(host, address string) {
	c.t.Helper()
	body, err := json.Marshal(map[string]any{"host": host, "addresses": []string{address}})
	must(c.t, err)
	response, err := http.Post(c.dns+"/add-a", "application/json", bytes.NewReader(body))
	must(c.t, err)
	must(c.t, response.Body.Close())
}

// watchSecrets notes when certificates are written.
func (c *certificates) watchSecrets() {
	factory := informers.NewSharedInformerFactory(server.Kube, 0)
	note := func(object any) {
		secret := object.(*corev1.Secret)
		block, _ := pem.Decode(secret.Data[corev1.TLSCertKey])
		if block == nil {
			return
		}
		leaf, err := x509.ParseCertificate(block.Bytes)
		name := secret.Namespace + "/" + secret.Name
		c.mu.Lock()
		defer c.mu.Unlock()
		if before := c.written[name].leaf; err == nil && (before == nil || !before.Equal(leaf)) {
			c.written[name] = written{time.Now(), leaf}
		}
	}
	_, err := factory.Core().V1().Secrets().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: note, UpdateFunc: func(_, object any) { note(object) },
	})
	must(c.t, err)
	factory.Start(c.t.Context().Done())
}

// solver is a pod that answers a challenge.
type solver struct {
	pod     *corev1.Pod
	service *corev1.Service
	program *testenv.Program
}

// playKubelet runs the pods of challenges, and makes them endpoints of their Services.
func (c *certificates) playKubelet() {
	factory := informers.NewSharedInformerFactoryWithOptions(server.Kube, 0, informers.WithTweakListOptions(func(options *metav1.ListOptions) {
		options.LabelSelector = "acme.cert-manager.io/http01-solver=true"
	}))
	var mu sync.Mutex
	all := map[string]*solver{}
	of := func(object metav1.Object) *solver {
		labels := object.GetLabels()
		key := object.GetNamespace() + "/" + labels["acme.cert-manager.io/http-domain"] + "/" + labels["acme.cert-manager.io/http-token"]
		if all[key] == nil {
			all[key] = &solver{}
		}
		return all[key]
	}
	change := func(object any, is bool) {
		if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = tombstone.Obj
		}
		mu.Lock()
		defer mu.Unlock()
		one := of(object.(metav1.Object))
		switch object := object.(type) {
		case *corev1.Pod:
			one.pod = object
		case *corev1.Service:
			one.service = object
		}
		c.run(one, is)
	}
	for _, informer := range []cache.SharedIndexInformer{factory.Core().V1().Pods().Informer(), factory.Core().V1().Services().Informer()} {
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(object any) { change(object, true) }, DeleteFunc: func(object any) { change(object, false) },
		})
		must(c.t, err)
	}
	factory.Start(c.t.Context().Done())
}

// run starts the program of a pod whose Service there is, or ends it.
func (c *certificates) run(one *solver, is bool) {
	ctx := context.WithoutCancel(c.t.Context())
	switch {
	case is && one.program == nil && one.pod != nil && one.service != nil:
		port := haproxytest.FreePort(c.t)
		args := slices.Clone(one.pod.Spec.Containers[0].Args)
		for i, arg := range args {
			if strings.HasPrefix(arg, "--listen-port=") {
				args[i] = fmt.Sprintf("--listen-port=%d", port)
			}
		}
		one.program = testenv.Start(c.t, nil, tool(c.t, "acmesolver"), args...)
		at := discoveryv1.EndpointPort{Name: &one.service.Spec.Ports[0].Name, Port: &port}
		if err := createSlice(ctx, one.pod.Namespace, one.pod.Name, one.service.Name, testenv.OwnAddress(c.t), at); err != nil {
			c.t.Error(err)
		}
	case !is && one.program != nil:
		one.program.Kill()
		one.program = nil
		_ = server.Kube.DiscoveryV1().EndpointSlices(one.pod.Namespace).Delete(ctx, one.pod.Name, metav1.DeleteOptions{})
	}
}

// served is how long it took until a host was served with a certificate: in all, and of that from the Secret on.
type served struct {
	all, ours time.Duration
	leaf      *x509.Certificate
}

// await waits until a proxy shows the certificate of a Secret for a host, another one than before, if there was any.
func (c *certificates) await(p *proxy, secret, host string, since time.Time, before *x509.Certificate) (served, error) {
	var at written
	err := poll(c.t.Context(), long, 5*time.Millisecond, func(context.Context) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		at = c.written[secret]
		if at.leaf == nil || before != nil && at.leaf.Equal(before) || at.leaf.VerifyHostname(host) != nil {
			return fmt.Errorf("the Secret %s has no certificate for %s", secret, host)
		}
		return nil
	})
	if err != nil {
		return served{}, err
	}
	err = poll(c.t.Context(), soon, 5*time.Millisecond, func(ctx context.Context) error {
		leaf, err := p.handshake(ctx, host, c.roots)
		if err == nil && !leaf.Equal(at.leaf) {
			err = errors.New("another certificate is shown")
		}
		return err
	})
	return served{time.Since(since), time.Since(at.at), at.leaf}, err
}

// mustAwait is await, or the end of the test with what cert-manager says.
func (c *certificates) mustAwait(p *proxy, secret, host string, since time.Time, before *x509.Certificate) served {
	c.t.Helper()
	s, err := c.await(p, secret, host, since, before)
	if err != nil {
		c.t.Logf("%s", server.Kubectl(c.t, "get", "certificates,orders,challenges,httproutes", "-A", "-o", "yaml"))
		c.t.Fatal(err)
	}
	return s
}

// renew has cert-manager renew a Certificate at once, as `cmctl renew` does, when it has done with the last one.
func (c *certificates) renew(namespace, name string) {
	c.t.Helper()
	resource := server.Dynamic.Resource(schema.GroupVersionResource{Group: "cert-manager.io", Version: "v1", Resource: "certificates"}).Namespace(namespace)
	testenv.Eventually(c.t, soon, "the Certificate to be renewed", func(ctx context.Context) error {
		// The API server refuses a second condition of the type.
		_, err := resource.Patch(ctx, name, types.JSONPatchType, fmt.Appendf(nil, `[{"op": "add", "path": "/status/conditions/-", "value": {
			"type": "Issuing", "status": "True", "reason": "ManuallyTriggered", "message": "", "lastTransitionTime": %q}}]`,
			time.Now().UTC().Format(time.RFC3339)), metav1.PatchOptions{}, "status")
		return err
	})
}
