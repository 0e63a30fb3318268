package resources

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	appv1 "gateway/api/app/v1"
)

// held are the sources of what a container mounts, as "KIND NAME KEYS", and the volumes of the pod's own, as "MODE
// NAME".
func held(t *testing.T, pod *corev1ac.PodSpecApplyConfiguration, container *corev1ac.ContainerApplyConfiguration) []string {
	t.Helper()
	var all []string
	for _, mount := range container.VolumeMounts {
		i := slices.IndexFunc(pod.Volumes, func(v corev1ac.VolumeApplyConfiguration) bool { return *v.Name == *mount.Name })
		if i < 0 {
			t.Fatalf("container %s mounts volume %s, which does not exist", *container.Name, *mount.Name)
		}
		projected := pod.Volumes[i].Projected
		if projected == nil {
			mode := "rw "
			if mount.ReadOnly != nil && *mount.ReadOnly {
				mode = "ro "
			}
			all = append(all, mode+*mount.Name)
			continue
		}
		for _, source := range projected.Sources {
			switch {
			case source.ServiceAccountToken != nil && source.ServiceAccountToken.Audience != nil:
				all = append(all, "token "+*source.ServiceAccountToken.Audience)
			case source.ServiceAccountToken != nil:
				all = append(all, "token")
			case source.Secret != nil:
				all = append(all, "Secret "+*source.Secret.Name+" "+keys(t, *source.Secret.Name, source.Secret.Items))
			case source.ConfigMap != nil && *mount.Name != tokenVolume:
				all = append(all, "ConfigMap "+*source.ConfigMap.Name+" "+keys(t, *source.ConfigMap.Name, source.ConfigMap.Items))
			}
		}
	}
	return all
}

// keys are the keys of an object that are mounted. None at all would mean every one.
func keys(t *testing.T, object string, items []corev1ac.KeyToPathApplyConfiguration) string {
	t.Helper()
	if len(items) == 0 {
		t.Errorf("every key of %s is mounted", object)
	}
	var all []string
	for _, item := range items {
		if want := object + "/" + *item.Key; *item.Path != want {
			t.Errorf("key %s of %s is mounted as %s, want %s", *item.Key, object, *item.Path, want)
		}
		all = append(all, *item.Key)
	}
	return strings.Join(all, ",")
}

// The promise of the design: who can talk to the API server holds no key, and who holds the keys cannot.
func TestNoContainerHoldsBothTokenAndKeys(t *testing.T) {
	gateway := readGateway(t, "testdata/tls.in.yaml")
	token := appv1.RuleFilter{Type: appv1.RuleFilterJWT, JWT: &appv1.JWT{Issuers: []appv1.JWTIssuer{{Keys: appv1.JWTKeys{ConfigMapRef: &appv1.ObjectReference{Name: "issuer"}}}}}}
	remote := appv1.RuleFilter{Type: appv1.RuleFilterJWT, JWT: &appv1.JWT{Issuers: []appv1.JWTIssuer{{Keys: appv1.JWTKeys{Remote: &appv1.RemoteJWTKeys{URI: "https://issuer.test/keys", CACertificateRefs: []appv1.ObjectReference{{Name: "public"}}}}}}}}
	login := appv1.RuleFilter{Type: appv1.RuleFilterOIDC, OIDC: &appv1.OIDC{SecretRef: appv1.ObjectReference{Name: "provider"}, CACertificateRefs: []appv1.ObjectReference{{Name: "public"}}}}
	gateway.Spec.Routes = append(gateway.Spec.Routes, appv1.Route{Rules: []appv1.RouteRule{{Filters: []appv1.RuleFilter{token}}, {Filters: []appv1.RuleFilter{remote}}, {Filters: []appv1.RuleFilter{login, {Type: appv1.RuleFilterWAF, WAF: &appv1.WAF{RulesRef: &appv1.ObjectReference{Name: "rules"}}}}}}})
	pod := DesiredDeployment(gateway, testOptions).Spec.Template.Spec
	if len(pod.InitContainers) != 4 || len(pod.Containers) != 1 {
		t.Fatalf("there are %d init containers and %d containers, want keys, login, waf, the agent and HAProxy", len(pod.InitContainers), len(pod.Containers))
	}
	for _, test := range []struct {
		container *corev1ac.ContainerApplyConfiguration
		want      []string
	}{
		{&pod.InitContainers[0], []string{"Secret shop-ecdsa.tls tls.crt,tls.key", "Secret shop-tls tls.crt,tls.key", "Secret provider auth,api-keys,session-keys,issuer", "Secret shop-tls auth,api-keys,session-keys,issuer", "Secret users auth,api-keys,session-keys,issuer", "rw keys", "rw keys-run", "rw certificates", "ro config"}},
		{&pod.InitContainers[1], []string{
			"Secret provider session-keys,client-secret,issuer", "rw login-run",
			"ConfigMap internal ca.crt,ca.crl,jwks,rules.conf", "ConfigMap issuer ca.crt,ca.crl,jwks,rules.conf", "ConfigMap partners ca.crt,ca.crl,jwks,rules.conf", "ConfigMap public ca.crt,ca.crl,jwks,rules.conf", "ConfigMap rules ca.crt,ca.crl,jwks,rules.conf", "ConfigMap staff ca.crt,ca.crl,jwks,rules.conf",
		}},
		{&pod.InitContainers[2], []string{
			"rw waf-run",
			"ConfigMap internal ca.crt,ca.crl,jwks,rules.conf", "ConfigMap issuer ca.crt,ca.crl,jwks,rules.conf", "ConfigMap partners ca.crt,ca.crl,jwks,rules.conf",
			"ConfigMap public ca.crt,ca.crl,jwks,rules.conf", "ConfigMap rules ca.crt,ca.crl,jwks,rules.conf", "ConfigMap staff ca.crt,ca.crl,jwks,rules.conf",
		}},
		{&pod.InitContainers[3], []string{
			"rw config", "rw run", "token", "ro certificates",
			"ConfigMap internal ca.crt,ca.crl,jwks,rules.conf", "ConfigMap issuer ca.crt,ca.crl,jwks,rules.conf", "ConfigMap partners ca.crt,ca.crl,jwks,rules.conf", "ConfigMap public ca.crt,ca.crl,jwks,rules.conf", "ConfigMap rules ca.crt,ca.crl,jwks,rules.conf", "ConfigMap staff ca.crt,ca.crl,jwks,rules.conf",
		}},
		{&pod.Containers[0], []string{"ro config", "rw run", "ro keys", "rw keys-run", "rw waf-run", "rw login-run"}},
	} {
		if got := held(t, pod, test.container); !slices.Equal(got, test.want) {
			t.Errorf("container %s holds %q, want %q", *test.container.Name, got, test.want)
		}
	}
}

// With a key server, all pods are the same, whatever is named. keys has a token that the key server alone takes, and
// nobody else has one of those.
func TestPodsOfAKeyServer(t *testing.T) {
	options := testOptions
	options.KeyServer, options.KeyServerCA = "keys.gateway-system.svc:8443", "PEM"
	template := DesiredDeployment(readGateway(t, "testdata/tls.in.yaml"), options).Spec.Template
	pod := template.Spec
	if plain := DesiredDeployment(readGateway(t, "testdata/plain.in.yaml"), options).Spec.Template.Spec; len(plain.InitContainers) != 4 || len(pod.InitContainers) != 4 {
		t.Fatalf("there are %d and %d init containers, want keys, login, waf and the agent", len(plain.InitContainers), len(pod.InitContainers))
	}
	for _, test := range []struct {
		container *corev1ac.ContainerApplyConfiguration
		want      []string
	}{
		{&pod.InitContainers[0], []string{"rw secrets", "rw keys", "rw keys-run", "rw certificates", "ro config", "rw logins", "rw authorities", "token keys.app.example.com"}},
		{&pod.InitContainers[1], []string{"ro logins", "rw login-run", "ro authorities"}},
		{&pod.InitContainers[2], []string{"rw waf-run", "ro authorities"}},
		{&pod.InitContainers[3], []string{"rw config", "rw run", "token", "ro certificates", "ro authorities"}},
		{&pod.Containers[0], []string{"ro config", "rw run", "ro keys", "rw keys-run", "rw waf-run", "rw login-run"}},
	} {
		if got := held(t, pod, test.container); !slices.Equal(got, test.want) {
			t.Errorf("container %s holds %q, want %q", *test.container.Name, got, test.want)
		}
	}
	if agent := &pod.InitContainers[3]; !slices.Contains(agent.Args, "-key-server") || slices.ContainsFunc(agent.Args, func(arg string) bool { return strings.Contains(arg, "shop-tls") }) {
		t.Errorf("the agent runs with %q", agent.Args)
	}
	for _, volume := range pod.Volumes {
		if volume.EmptyDir != nil && *volume.Name != configVolume && (volume.EmptyDir.Medium == nil || *volume.EmptyDir.Medium != "Memory") {
			t.Errorf("volume %s is on a disk", *volume.Name)
		}
	}
}

// A Gateway without certificates has the container keys for users alone.
func TestUsersAlone(t *testing.T) {
	gateway := readGateway(t, "testdata/tls.in.yaml")
	gateway.Spec.Listeners, gateway.Spec.Backends = gateway.Spec.Listeners[:1], nil
	gateway.Spec.Listeners[0].TLS = nil
	gateway.Spec.Routes[0].Rules = gateway.Spec.Routes[0].Rules[:1]
	gateway.Status.Attachments = &appv1.Attachments{Users: []appv1.ObjectReference{{Name: "staff"}, {Name: "users"}}}
	pod := DesiredDeployment(gateway, testOptions).Spec.Template.Spec
	if got := held(t, pod, &pod.InitContainers[0]); !slices.Equal(got, []string{"Secret staff auth,api-keys,session-keys,issuer", "Secret users auth,api-keys,session-keys,issuer", "rw keys", "rw keys-run", "rw certificates", "ro config"}) {
		t.Errorf("container %s holds %q", *pod.InitContainers[0].Name, got)
	}
	if args := pod.InitContainers[1].Args; !slices.Contains(args, "-users=staff") || !slices.Contains(args, "-users=users") {
		t.Errorf("the agent runs with %q", args)
	}
}

// A Gateway without Secrets has the container keys only to verify names of endpoints, and the agent knows of it.
func TestNamesAlone(t *testing.T) {
	gateway := readGateway(t, "testdata/plain.in.yaml")
	if gateway.Status.Attachments = nil; len(DesiredDeployment(gateway, testOptions).Spec.Template.Spec.InitContainers) != 1 {
		t.Fatal("there is more than the agent")
	}
	gateway.Status.Attachments = &appv1.Attachments{VerifiesNames: true}
	pod := DesiredDeployment(gateway, testOptions).Spec.Template.Spec
	if got := held(t, pod, &pod.InitContainers[0]); !slices.Equal(got, []string{"rw keys", "rw keys-run", "rw certificates", "ro config"}) {
		t.Errorf("container %s holds %q", *pod.InitContainers[0].Name, got)
	}
	if args := pod.InitContainers[1].Args; !slices.Contains(args, "-keys") {
		t.Errorf("the agent runs with %q", args)
	}
}

// A Gateway with a WAF and without Secrets has the container waf alone beside the agent, whether a rule of its own or a
// route needs it.
func TestWAFAlone(t *testing.T) {
	gateway := readGateway(t, "testdata/plain.in.yaml")
	gateway.Status.Attachments = &appv1.Attachments{WAF: true}
	pod := DesiredDeployment(gateway, testOptions).Spec.Template.Spec
	if args := pod.InitContainers[0].Args; slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "-rules-dir") }) {
		t.Errorf("gateway-waf runs with %q, and there are no rules", args)
	}
	for i, want := range [][]string{{"rw waf-run"}, {"rw config", "rw run", "token"}} {
		if got := held(t, pod, &pod.InitContainers[i]); !slices.Equal(got, want) {
			t.Errorf("container %s holds %q, want %q", *pod.InitContainers[i].Name, got, want)
		}
	}
	if got, want := held(t, pod, &pod.Containers[0]), []string{"ro config", "rw run", "rw waf-run"}; !slices.Equal(got, want) {
		t.Errorf("HAProxy holds %q, want %q", got, want)
	}
}

func TestWhatIsMissingKeepsNoPodFromStarting(t *testing.T) {
	for _, volume := range tlsVolumes(contentOf(readGateway(t, "testdata/tls.in.yaml"), testOptions)) {
		if volume.Projected == nil {
			continue
		}
		for _, source := range volume.Projected.Sources {
			if source.Secret != nil && !*source.Secret.Optional || source.ConfigMap != nil && !*source.ConfigMap.Optional {
				t.Errorf("volume %s has a source that has to exist: %+v", *volume.Name, source)
			}
		}
	}
}

// kubelet mounts what the pod names: another Secret takes another pod, another route, hostname or order of names does
// not.
func TestOnlyNamedSecretsAndConfigMapsChangeThePod(t *testing.T) {
	tests := map[string]struct {
		edit    func(spec *appv1.GatewaySpec)
		changes bool
	}{
		"a Secret": {func(spec *appv1.GatewaySpec) {
			spec.Listeners[1].TLS.CertificateRefs = []appv1.ObjectReference{{Name: "new"}}
		}, true},
		"the certificate for backends": {func(spec *appv1.GatewaySpec) {
			spec.BackendClientCertificateRef = &appv1.ObjectReference{Name: "new"}
		}, true},
		"a client CA": {func(spec *appv1.GatewaySpec) {
			spec.Listeners[1].TLS.ClientValidation = &appv1.ClientValidation{CACertificateRefs: []appv1.ObjectReference{{Name: "new"}}}
		}, true},
		"a backend's CA": {func(spec *appv1.GatewaySpec) {
			spec.Backends[0].TLS.CACertificateRefs = []appv1.ObjectReference{{Name: "new"}}
		}, true},
		"users": {func(spec *appv1.GatewaySpec) { spec.Routes[0].Rules[0].Filters[0].BasicAuth.SecretRef.Name = "new" }, true},
		"users for one more rule": {func(spec *appv1.GatewaySpec) {
			spec.Routes[0].Rules = append(spec.Routes[0].Rules, spec.Routes[0].Rules...)
		}, false},
		"the first WAF": {func(spec *appv1.GatewaySpec) {
			rule := &spec.Routes[0].Rules[0]
			rule.Filters = append(rule.Filters, appv1.RuleFilter{Type: appv1.RuleFilterWAF, WAF: &appv1.WAF{}})
		}, true},
		"the order of Secrets": {func(spec *appv1.GatewaySpec) { slices.Reverse(spec.Listeners[0].TLS.CertificateRefs) }, false},
		"a Secret for one more listener": {func(spec *appv1.GatewaySpec) {
			spec.Listeners[1].TLS.CertificateRefs = spec.Listeners[0].TLS.CertificateRefs
		}, false},
		"a hostname": {func(spec *appv1.GatewaySpec) { spec.Listeners[0].Hostname = "*.example.org" }, false},
		"a route":    {func(spec *appv1.GatewaySpec) { spec.Routes = append(spec.Routes, appv1.Route{Name: "new"}) }, false},
	}
	before := DesiredDeployment(readGateway(t, "testdata/tls.in.yaml"), testOptions)
	serverOptions := testOptions
	serverOptions.KeyServer, serverOptions.KeyServerCA = "keys:8443", "PEM"
	withServer := DesiredDeployment(readGateway(t, "testdata/tls.in.yaml"), serverOptions)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			gateway := readGateway(t, "testdata/tls.in.yaml")
			test.edit(&gateway.Spec)
			if got := !reflect.DeepEqual(before, DesiredDeployment(gateway, testOptions)); got != test.changes {
				t.Errorf("the Deployment changed: %t, want %t", got, test.changes)
			}
			// With a key server, none of it does.
			if !reflect.DeepEqual(withServer, DesiredDeployment(gateway, serverOptions)) {
				t.Error("with a key server, the Deployment changed")
			}
		})
	}
}

func TestWithoutTLSNothingIsMounted(t *testing.T) {
	gateway := readGateway(t, "testdata/plain.in.yaml")
	if volumes := tlsVolumes(contentOf(gateway, testOptions)); len(volumes) > 0 {
		t.Errorf("volumes are mounted: %+v", volumes)
	}
	if args := mountArgs(contentOf(gateway, testOptions)); len(args) > 0 {
		t.Errorf("the agent is told of %q", args)
	}
}

// Nobody reads Secrets or ConfigMaps from the API server: kubelet mounts them.
func TestTheRoleGrantsNoSecretsAndNoConfigMaps(t *testing.T) {
	for _, rule := range DesiredRole(readGateway(t, "testdata/tls.in.yaml")).Rules {
		for _, resource := range rule.Resources {
			if resource == "secrets" || resource == "configmaps" || resource == "*" {
				t.Errorf("the agent may %q %s", rule.Verbs, resource)
			}
		}
	}
}
