//go:build slow

package soak

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// churn changes all there is, each kind at a pace of its own, until ctx ends. It returns how many changes were made.
func (s *site) churn(ctx context.Context, t *testing.T, group *sync.WaitGroup) *atomic.Int64 {
	t.Helper()
	var changes atomic.Int64
	for _, change := range []struct {
		every time.Duration
		make  func(ctx context.Context, n int) error
	}{
		{500 * time.Millisecond, func(ctx context.Context, n int) error {
			return s.patch(ctx, map[string]any{"routes": routes(n)})
		}},
		{time.Second, s.moveEndpoint},
		{20 * time.Second, s.scale},
		// A listener is added or removed by a reload.
		{15 * time.Second, func(ctx context.Context, n int) error {
			return s.patch(ctx, map[string]any{"listeners": listeners(n%2 == 1)})
		}},
		{30 * time.Second, func(ctx context.Context, _ int) error { return s.renew(ctx, t) }},
	} {
		group.Go(func() {
			tick := time.NewTicker(change.every)
			defer tick.Stop()
			for n := 0; ; n++ {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
				if err := change.make(ctx, n); err != nil && ctx.Err() == nil {
					t.Errorf("a change failed: %v", err)
				}
				changes.Add(1)
			}
		})
	}
	return &changes
}

func (s *site) patch(ctx context.Context, spec map[string]any) error {
	body, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		return err
	}
	_, err = gateways.AppV1().Gateways(s.namespace).Patch(ctx, gatewayName, types.MergePatchType, body, metav1.PatchOptions{})
	return err
}

// moveEndpoint makes the one endpoint of "moving" another pod of the backend, and every third time none.
func (s *site) moveEndpoint(ctx context.Context, n int) error {
	pods, err := kube.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=echo"})
	if err != nil {
		return err
	}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "moving", Labels: map[string]string{discoveryv1.LabelServiceName: "moving"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To(""), Port: ptr.To(int32(8080)), Protocol: ptr.To(corev1.ProtocolTCP)}},
	}
	if pod := pods.Items[n%len(pods.Items)]; n%3 > 0 && pod.Status.PodIP != "" {
		slice.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{pod.Status.PodIP}}}
	}
	client := kube.DiscoveryV1().EndpointSlices(s.namespace)
	if _, err = client.Update(ctx, slice, metav1.UpdateOptions{}); apierrors.IsNotFound(err) {
		_, err = client.Create(ctx, slice, metav1.CreateOptions{})
	}
	return err
}

// scale gives the backend three pods, then two again.
func (s *site) scale(ctx context.Context, n int) error {
	_, err := kube.AppsV1().Deployments(s.namespace).Patch(ctx, "echo", types.MergePatchType,
		fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, 3-n%2), metav1.PatchOptions{}, "scale")
	return err
}

// renew gives the Gateway another certificate; kubelet writes it into the pods at once when they change, too.
func (s *site) renew(ctx context.Context, t *testing.T) error {
	t.Helper()
	if err := s.putSecret(t); err != nil {
		return err
	}
	pods, err := kube.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.example.com/gateway"})
	if err != nil {
		return err
	}
	for _, pod := range pods.Items {
		_, err := kube.CoreV1().Pods(s.namespace).Patch(ctx, pod.Name, types.MergePatchType,
			fmt.Appendf(nil, `{"metadata":{"annotations":{"renewed":%q}}}`, time.Now()), metav1.PatchOptions{})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *site) putSecret(t *testing.T) error {
	t.Helper()
	pair := s.authority.Issue(t, []string{host})
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "soak-tls"}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: pair.Certificate, corev1.TLSPrivateKeyKey: pair.Key},
	}
	client := kube.CoreV1().Secrets(s.namespace)
	_, err := client.Update(t.Context(), secret, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = client.Create(t.Context(), secret, metav1.CreateOptions{})
	}
	return err
}

// requests counts what was sent, and tells what was not answered with 200.
type requests struct {
	mu   sync.Mutex
	sent int
	lost []string
}

// traffic sends 200 requests a second, over connections that stay and over new ones, with and without TLS, until ctx
// ends.
func (s *site) traffic(ctx context.Context, group *sync.WaitGroup) *requests {
	all := &requests{}
	config := &tls.Config{RootCAs: s.authority.Pool(), ServerName: host}
	for _, url := range []string{"http://" + s.http, "https://" + s.https} {
		for _, fresh := range []bool{false, true} {
			client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: fresh}}
			group.Go(func() {
				tick := time.NewTicker(20 * time.Millisecond)
				defer tick.Stop()
				for {
					select {
					case <-ctx.Done():
						return
					case <-tick.C:
						all.count(get(client, url))
					}
				}
			})
		}
	}
	return all
}

func (r *requests) count(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent++
	if err != nil {
		r.lost = append(r.lost, time.Now().Format("15:04:05.000 ")+err.Error())
	}
}

func get(client *http.Client, url string) error {
	request, err := http.NewRequest(http.MethodGet, url+"/", nil)
	if err != nil {
		return err
	}
	request.Host = host
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	if body, err := io.ReadAll(response.Body); err != nil || response.StatusCode != http.StatusOK {
		return fmt.Errorf("%d %s %w", response.StatusCode, body, err)
	}
	return nil
}
