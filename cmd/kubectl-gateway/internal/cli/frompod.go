package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"

	"gateway/internal/proxyconfig"
	"gateway/internal/proxypod"
)

const (
	// askTimeout bounds asking one pod: a node that is gone does not answer at all.
	askTimeout = 15 * time.Second
	// askedAtOnce bounds how many pods are asked at the same time.
	askedAtOnce = 16
	// maxAnswer bounds what is read: of /proxy-config, a server is some 150 bytes.
	maxAnswer = 64 << 20
)

// Answer is the answer of a proxy pod.
type Answer struct {
	Pod string `json:"pod"`
	// Error is why it could not be asked.
	Error string `json:"error,omitempty"`
	*proxyconfig.Config
	// More are the other pages that were asked for.
	More [][]byte `json:"-"`
}

// AskAll asks proxy pods what they run, and for other pages. The answers are in the order of the pods.
func (c Clients) AskAll(ctx context.Context, pods []corev1.Pod, more ...Page) []Answer {
	answers := make([]Answer, len(pods))
	for i, pages := range c.PagesOfAll(ctx, pods, append([]Page{{proxypod.HealthPort, proxyconfig.Path}}, more...)...) {
		answers[i].Pod = pods[i].Name
		err := pages.Err
		if err == nil {
			answers[i].More = pages.Content[1:]
			err = json.Unmarshal(pages.Content[0], &answers[i].Config)
		}
		if err != nil {
			answers[i].Error = oneLine(err.Error())
		}
	}
	return answers
}

// Pages are what a pod answers for pages.
type Pages struct {
	Content [][]byte
	Err     error
}

// PagesOfAll asks pods for pages. The answers are in the order of the pods.
func (c Clients) PagesOfAll(ctx context.Context, pods []corev1.Pod, pages ...Page) []Pages {
	answers := make([]Pages, len(pods))
	slots := make(chan struct{}, askedAtOnce)
	var asking sync.WaitGroup
	for i := range pods {
		asking.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			answers[i].Content, answers[i].Err = c.fromPod(ctx, &pods[i], pages)
		})
	}
	asking.Wait()
	return answers
}

// Page is what a pod serves over HTTP.
type Page struct {
	Port int
	Path string
}

// fromPod returns pages of a pod, through a forwarded port. That goes through the API server and kubelet and comes from
// within the pod, so no NetworkPolicy is in the way, and programs in the pod need to answer nobody else.
func (c Clients) fromPod(ctx context.Context, pod *corev1.Pod, pages []Page) ([][]byte, error) {
	if pod.Status.Phase != corev1.PodRunning {
		return nil, fmt.Errorf("it is %s", pod.Status.Phase)
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answers, done := make([][]byte, len(pages)), make(chan error, 1)
	// Dialing ends with no context.
	go func() {
		connection, err := c.dial(pod)
		if err == nil {
			defer connection.Close() //nolint:errcheck // all was read
			context.AfterFunc(ctx, func() { _ = connection.Close() })
		}
		for i := 0; err == nil && i < len(pages); i++ {
			answers[i], err = get(connection, i, pages[i])
		}
		done <- err
	}()
	select {
	case err := <-done:
		return answers, err
	case <-ctx.Done():
		return nil, fmt.Errorf("no answer within %s", askTimeout)
	}
}

// dial opens a connection for streams to ports of the pod, as kubectl does: over a WebSocket or, where that is refused,
// SPDY.
func (c Clients) dial(pod *corev1.Pod) (httpstream.Connection, error) {
	url := c.Core.RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(c.Config)
	if err != nil {
		return nil, err
	}
	websocket, err := portforward.NewSPDYOverWebsocketDialerForStreaming(url, c.Config)
	if err != nil {
		return nil, err
	}
	dialer := portforward.NewFallbackDialerForStreaming(websocket, spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, url), func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	connection, _, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
	return connection, err
}

// get asks over two streams of the connection: one for the answer, and one for why the port cannot be reached.
func get(connection httpstream.Connection, id int, page Page) ([]byte, error) {
	headers := http.Header{}
	headers.Set(corev1.PortHeader, strconv.Itoa(page.Port))
	headers.Set(corev1.PortForwardRequestIDHeader, strconv.Itoa(id))
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	failures, err := connection.CreateStream(headers)
	if err != nil {
		return nil, err
	}
	_ = failures.Close() // our side of it: nothing is written
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := connection.CreateStream(headers)
	if err != nil {
		return nil, err
	}
	answer, err := exchange(data, page.Path)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		if reason, _ := io.ReadAll(io.LimitReader(failures, 1000)); len(reason) > 0 {
			err = errors.New(strings.TrimSpace(string(reason)))
		}
	}
	return answer, err
}

func exchange(stream io.ReadWriter, path string) ([]byte, error) {
	request, err := http.NewRequest(http.MethodGet, "http://localhost"+path, nil) //nolint:noctx // the connection is closed when it is over
	if err != nil {
		return nil, err
	}
	request.Close = true
	if err := request.Write(stream); err != nil {
		return nil, err
	}
	response, err := http.ReadResponse(bufio.NewReader(stream), request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close() //nolint:errcheck // all was read
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers %s", response.Status)
	}
	return io.ReadAll(io.LimitReader(response.Body, maxAnswer))
}
