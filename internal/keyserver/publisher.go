package keyserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"gateway/internal/logging"
)

const (
	// SecretName is the Secret with the server's identity, in its namespace.
	SecretName = "gateway-key-server" //nolint:gosec // a name, no credential
	// AuthorityName is the ConfigMap there with the certificates that pods verify it with.
	AuthorityName = "gateway-key-server-ca"

	// renewInterval is how often they are looked after, and retryInterval the same after a failure.
	renewInterval, retryInterval = time.Minute, 2 * time.Second
)

// errNoCertificate is returned if the server has no certificate yet.
var errNoCertificate = errors.New("the server has no certificate yet")

// publisher keeps the server's identity, which all replicas have.
type publisher struct {
	kube      kubernetes.Interface
	namespace string
	names     []string
	now       func() time.Time

	// known is the identity that was there last.
	known map[string][]byte
	pair  atomic.Pointer[tls.Certificate]
}

// run looks after the identity until ctx ends.
func (p *publisher) run(ctx context.Context) {
	for {
		interval := renewInterval
		if err := p.publish(ctx); err != nil && ctx.Err() == nil {
			logging.Warningf("Trying again: %v", err)
			interval = retryInterval
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(interval):
		}
	}
}

// publish makes the identity as it should be, and uses it. If the Secret is gone, it is what it was: pods trust no
// other.
func (p *publisher) publish(ctx context.Context) error {
	secrets := p.kube.CoreV1().Secrets(p.namespace)
	secret, err := secrets.Get(ctx, SecretName, metav1.GetOptions{})
	isNew := apierrors.IsNotFound(err)
	if isNew {
		secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: SecretName, Namespace: p.namespace}, Type: corev1.SecretTypeOpaque, Data: p.known}
	} else if err != nil {
		return fmt.Errorf("failed to get Secret %s/%s: %w", p.namespace, SecretName, err)
	}
	files, err := renew(secret.Data, p.names, p.now())
	if err != nil {
		return err
	}
	if isNew || !isSameFiles(files, secret.Data) {
		secret = secret.DeepCopy()
		secret.Data = files
		if isNew {
			_, err = secrets.Create(ctx, secret, metav1.CreateOptions{})
		} else {
			_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{})
		}
		if err != nil { // another replica may have been first
			return fmt.Errorf("failed to write Secret %s/%s: %w", p.namespace, SecretName, err)
		}
	}
	if err := p.publishAuthority(ctx, string(trusted(files))); err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(files[pairFile], files[pairKeyFile])
	if err != nil {
		return fmt.Errorf("failed to use the certificate of Secret %s/%s: %w", p.namespace, SecretName, err)
	}
	p.known = files
	p.pair.Store(&pair)
	return nil
}

// publishAuthority publishes whom pods trust.
func (p *publisher) publishAuthority(ctx context.Context, trusted string) error {
	configMaps := p.kube.CoreV1().ConfigMaps(p.namespace)
	before, err := configMaps.Get(ctx, AuthorityName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = configMaps.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: AuthorityName, Namespace: p.namespace}, Data: map[string]string{caFile: trusted},
		}, metav1.CreateOptions{})
	case err == nil && before.Data[caFile] != trusted:
		before = before.DeepCopy()
		before.Data = map[string]string{caFile: trusted}
		_, err = configMaps.Update(ctx, before, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("failed to publish ConfigMap %s/%s: %w", p.namespace, AuthorityName, err)
	}
	return nil
}

// certificate returns the server's certificate.
func (p *publisher) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if pair := p.pair.Load(); pair != nil {
		return pair, nil
	}
	return nil, errNoCertificate
}
