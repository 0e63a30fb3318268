package keyserver

import (
	"bytes"
	"crypto/x509"
	"maps"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubefake "k8s.io/client-go/kubernetes/fake"

	"gateway/internal/must"
)

var names = []string{"gateway-key-server.gateway-system.svc"}

// TestRenew: for decades, the server has a valid certificate that pods trust which learnt of authorities a month ago.
func TestRenew(t *testing.T) {
	var files map[string][]byte
	var earlier [][]byte
	day, authorities := 24*time.Hour, map[string]bool{}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for range 30 * 13 {
		before := maps.Clone(files)
		files = must.Get(renew(files, names, now))(t)
		if again, err := renew(files, names, now); err != nil || !isSameFiles(again, files) {
			t.Fatalf("%v: it changes without a reason, error %v", now, err)
		}
		if before != nil && bytes.Equal(before[pairFile], files[pairFile]) != bytes.Equal(before[pairKeyFile], files[pairKeyFile]) {
			t.Fatalf("%v: a key is used for two certificates", now)
		}
		authorities[string(files[caKeyFile])] = true
		earlier = append(earlier, trusted(files))
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(earlier[max(0, len(earlier)-2)])
		pair := parse(files[pairFile], files[pairKeyFile])
		for _, at := range []time.Time{now.Add(-clockSkew / 2), now.Add(28 * day)} {
			if _, err := pair.certificate.Verify(x509.VerifyOptions{Roots: pool, DNSName: names[0], CurrentTime: at}); err != nil {
				t.Fatalf("%v: %v", at, err)
			}
		}
		now = now.Add(28 * day)
	}
	if n := len(authorities); n < 3 || n > 5 {
		t.Errorf("there were %d authorities", n)
	}
	if size := len(trusted(files)); size > 4<<10 {
		t.Errorf("pods get %d bytes", size)
	}
}

// TestRenewBroken: what cannot be used is made anew.
func TestRenewBroken(t *testing.T) {
	now := time.Now()
	good := must.Get(renew(nil, names, now))(t)
	for _, file := range slices.Sorted(maps.Keys(good)) {
		for _, content := range []string{"", "broken", string(good[caKeyFile])} {
			files := maps.Clone(good)
			files[file] = []byte(content)
			files = must.Get(renew(files, names, now))(t)
			pool := x509.NewCertPool()
			pool.AppendCertsFromPEM(trusted(files))
			if pair := parse(files[pairFile], files[pairKeyFile]); pair == nil {
				t.Errorf("with another %s, there is no certificate", file)
			} else if _, err := pair.certificate.Verify(x509.VerifyOptions{Roots: pool, DNSName: names[0]}); err != nil {
				t.Errorf("with another %s: %v", file, err)
			}
		}
	}
	for _, name := range []string{"other", "10.96.0.9", "fd00::9"} {
		renamed := must.Get(renew(good, []string{name}, now))(t)
		if !bytes.Equal(renamed[caFile], good[caFile]) || parse(renamed[pairFile], renamed[pairKeyFile]).certificate.VerifyHostname(name) != nil {
			t.Errorf("with the name %s, there is no certificate for it", name)
		}
		if again, err := renew(renamed, []string{name}, now); err != nil || !isSameFiles(again, renamed) {
			t.Errorf("with the name %s, it changes without a reason, error %v", name, err)
		}
	}
}

// TestReplicasAgree: all replicas have one identity, which outlives its Secret.
func TestReplicasAgree(t *testing.T) {
	kube := kubefake.NewClientset()
	publishers := [2]publisher{}
	for i := range publishers {
		publishers[i] = publisher{kube: kube, namespace: "gateway-system", names: names, now: time.Now}
		if _, err := publishers[i].certificate(nil); err == nil {
			t.Error("there is a certificate before the first one")
		}
		must.Do(t, publishers[i].publish(t.Context()))
	}
	published := func() string {
		configMap := must.Get(kube.CoreV1().ConfigMaps("gateway-system").Get(t.Context(), AuthorityName, metav1.GetOptions{}))(t)
		return configMap.Data[caFile]
	}
	first := published()
	must.Do(t, kube.CoreV1().Secrets("gateway-system").Delete(t.Context(), SecretName, metav1.DeleteOptions{}))
	must.Do(t, kube.CoreV1().ConfigMaps("gateway-system").Delete(t.Context(), AuthorityName, metav1.DeleteOptions{}))
	for i := range publishers {
		must.Do(t, publishers[i].publish(t.Context()))
	}
	if published() != first || first != string(publishers[0].known[caFile]) {
		t.Error("after the Secret was deleted, pods have to trust another authority")
	}
	a, _ := publishers[0].certificate(nil)
	b, _ := publishers[1].certificate(nil)
	if !bytes.Equal(a.Certificate[0], b.Certificate[0]) {
		t.Error("the replicas have different certificates")
	}
	if _, err := kube.CoreV1().Secrets("other").Get(t.Context(), SecretName, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("another namespace has it, too: %v", err)
	}
}
