package e2e

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	appv1 "gateway/api/app/v1"
	"gateway/internal/certtest"
	"gateway/internal/must"
)

// mountPatience bounds how long kubelet may take to write a changed Secret into a running pod: it looks at a pod once a
// minute or so.
const mountPatience = 150 * time.Second

// TestTLS: a Gateway with a certificate from a Secret; another Secret that is no good; a renewal.
func TestTLS(t *testing.T) {
	t.Parallel()
	namespace, authority := newNamespace(t), certtest.NewAuthority(t)
	newBackend(t, namespace, "v1", 1)
	waitReplicas(t, namespace, "v1", 1)
	first := authority.Issue(t, []string{host})
	putSecret(t, namespace, "web-tls", first)
	gateway := newGateway(route("web", rule("/", backend("v1", 1))))
	gateway.Spec.Listeners = []appv1.Listener{httpsListener("https", host, "web-tls")}
	create(t, namespace, gateway)
	traffic := newTLSClient(t, namespace, authority.Pool())
	traffic.waitAnswer(t, host, "/", http.StatusOK, "v1")
	expectHeld(t, namespace, "web-tls/tls.crt, web-tls/tls.key")
	if onNode() {
		expectHitlessRenewal(t, namespace, traffic, authority)
	}

	// The key of another certificate, and a pair of which HAProxy alone can tell that it does not fit.
	bad := authority.Issue(t, []string{"bad.example.com"})
	bad.Key = first.Key
	putSecret(t, namespace, "bad-tls", bad)
	putSecret(t, namespace, "refused-tls", certtest.Refused())
	setListeners(t, namespace, httpsListener("https", host, "web-tls"),
		httpsListener("bad", "bad.example.com", "bad-tls"), httpsListener("refused", "refused.example.com", "refused-tls"))
	waitProgrammed(t, namespace)
	told := fmt.Sprintf(`listener "bad": Secret %s/bad-tls: tls.key is not the key of its certificate: private key does not match public key; `+
		`listener "refused": Secret %s/refused-tls: HAProxy refuses the certificate: inconsistencies between private key and certificate loaded`, namespace, namespace)
	expectInvalidCertificate(t, namespace, told)
	newTLSClient(t, namespace, authority.Pool()).waitAnswer(t, host, "/", http.StatusOK, "v1")
	expectHeld(t, namespace, "bad-tls/tls.crt, bad-tls/tls.key, refused-tls/tls.crt, refused-tls/tls.key, web-tls/tls.crt, web-tls/tls.key")
}

func httpsListener(name, hostname, secret string) appv1.Listener {
	return appv1.Listener{
		Name: appv1.Name(name), Port: 443, Protocol: appv1.ProtocolHTTPS, Hostname: appv1.Hostname(hostname),
		TLS: &appv1.ListenerTLS{CertificateRefs: []appv1.ObjectReference{{Name: secret}}},
	}
}

// putSecret creates or changes a Secret.
func putSecret(t *testing.T, namespace, name string, pair certtest.Pair) {
	t.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: pair.Certificate, corev1.TLSPrivateKeyKey: pair.Key},
	}
	client := kube.CoreV1().Secrets(namespace)
	if _, err := client.Create(t.Context(), secret, metav1.CreateOptions{}); err == nil {
		return
	}
	must.Get(client.Update(t.Context(), secret, metav1.UpdateOptions{}))(t)
}

func setListeners(t *testing.T, namespace string, listeners ...appv1.Listener) {
	t.Helper()
	body := must.Get(json.Marshal(map[string]any{"spec": map[string]any{"listeners": listeners}}))(t)
	must.Get(gateways.AppV1().Gateways(namespace).Patch(t.Context(), gatewayName, types.MergePatchType, body, metav1.PatchOptions{}))(t)
}

// wakeKubelet changes the proxies again and again until the test ends: kubelet writes changed Secrets into a pod that
// changes, and else within a minute or so. Once would not do, since it may hear of the pod before it hears of the
// Secret.
func wakeKubelet(t *testing.T, namespace string) {
	t.Helper()
	ctx, pods := t.Context(), kube.CoreV1().Pods(namespace)
	go wait.UntilWithContext(ctx, func(ctx context.Context) {
		list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: proxySelector})
		if err != nil {
			return // it is only about time
		}
		body := fmt.Appendf(nil, `{"metadata":{"annotations":{"example.com/woken":%q}}}`, time.Now())
		for _, pod := range list.Items {
			_, _ = pods.Patch(ctx, pod.Name, types.MergePatchType, body, metav1.PatchOptions{})
		}
	}, 3*time.Second)
}

// expectHitlessRenewal changes the Secret and waits until clients get the new certificate; no request fails meanwhile.
func expectHitlessRenewal(t *testing.T, namespace string, traffic *client, authority *certtest.Authority) {
	t.Helper()
	stop := traffic.probe(t)
	renewed := authority.Issue(t, []string{host})
	begin := time.Now()
	putSecret(t, namespace, "web-tls", renewed)
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), poll, mountPatience, true, func(context.Context) (bool, error) {
		last = expectShown(traffic, renewed)
		return last == nil, nil
	})
	if err != nil {
		t.Errorf("the renewed certificate is not shown: %v", last)
	}
	t.Logf("the renewed certificate is shown after %s", time.Since(begin).Round(time.Second))
	stop()
}

func expectShown(traffic *client, pair certtest.Pair) error {
	connection, err := tls.Dial("tcp", traffic.address, traffic.tls)
	if err != nil {
		return err
	}
	defer connection.Close() //nolint:errcheck // nothing was sent
	if !connection.ConnectionState().PeerCertificates[0].Equal(pair.Leaf) {
		return errors.New("it is still the one before")
	}
	return nil
}

// expectInvalidCertificate waits for the condition and for the event that say what is wrong.
func expectInvalidCertificate(t *testing.T, namespace, told string) {
	t.Helper()
	eventually(t, "the condition names the Secret", func(ctx context.Context) error {
		gateway, err := gateways.AppV1().Gateways(namespace).Get(ctx, gatewayName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		condition := meta.FindStatusCondition(gateway.Status.Conditions, appv1.ConditionResolvedRefs)
		if condition == nil || condition.Status != metav1.ConditionFalse || condition.Reason != "InvalidCertificateRef" || condition.Message != told {
			return fmt.Errorf("it is %+v", condition)
		}
		return nil
	})
	eventually(t, "an event names the Secret", func(ctx context.Context) error {
		lines, err := events(ctx, namespace, gatewayName)
		if err == nil && !strings.Contains(lines, "InvalidCertificateRef: "+told) {
			err = fmt.Errorf("events are\n%s", lines)
		}
		return err
	})
}

// expectHeld compares which credentials the containers of the running proxies mount: Secrets the one that passes them
// on, and the agent its token. What a container sees in the end, TestLockedDown reads from the running processes.
func expectHeld(t *testing.T, namespace, secrets string) {
	t.Helper()
	pods := slices.DeleteFunc(proxyPods(t, namespace), func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil })
	for i := range pods {
		pod := &pods[i].Spec
		for container, want := range map[*corev1.Container]string{
			&pod.InitContainers[0]: secrets, &pod.InitContainers[1]: "token", &pod.Containers[0]: "",
		} {
			if got := strings.Join(held(pod, container), ", "); got != want {
				t.Errorf("Pod %s: container %s holds %s, want %s", pods[i].Name, container.Name, got, want)
			}
		}
	}
}

// held are the API token and the files of Secrets that a container mounts.
func held(pod *corev1.PodSpec, container *corev1.Container) []string {
	var all []string
	for _, mount := range container.VolumeMounts {
		i := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name })
		if i < 0 || pod.Volumes[i].Projected == nil {
			continue
		}
		for _, source := range pod.Volumes[i].Projected.Sources {
			if source.ServiceAccountToken != nil {
				all = append(all, "token")
			}
			if source.Secret != nil {
				for _, item := range source.Secret.Items {
					all = append(all, item.Path)
				}
			}
		}
	}
	return all
}
