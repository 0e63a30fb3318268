package proxyconfig

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
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"

	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/internal/proxyconfig"
	"gateway/internal/proxypod"
)

const (
	// askTimeout bounds asking one pod: a node that is gone does not answer at all.
	askTimeout = 15 * time.Second
	// maxAnswer bounds what is read: a server is some 150 bytes.
	maxAnswer = 64 << 20
)

// ask returns what a pod says of itself, through a forwarded port. That goes through the API server and kubelet and
// comes from within the pod, so no NetworkPolicy is in the way, and agents need to answer nobody else.
func ask(ctx context.Context, clients cli.Clients, pod *corev1.Pod) (*proxyconfig.Config, error) {
	if pod.Status.Phase != corev1.PodRunning {
		return nil, fmt.Errorf("it is %s", pod.Status.Phase)
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	type outcome struct {
		config *proxyconfig.Config
		err    error
	}
	done := make(chan outcome, 1)
	// Dialing ends with no context.
	go func() {
		connection, err := dial(clients, pod)
		if err != nil {
			done <- outcome{nil, err}
			return
		}
		defer connection.Close() //nolint:errcheck // all was read
		context.AfterFunc(ctx, func() { _ = connection.Close() })
		config, err := get(connection)
		done <- outcome{config, err}
	}()
	select {
	case outcome := <-done:
		return outcome.config, outcome.err
	case <-ctx.Done():
		return nil, fmt.Errorf("no answer within %s", askTimeout)
	}
}

// dial opens a connection for streams to ports of the pod, as kubectl does: over a WebSocket or, where that is refused,
// SPDY.
func dial(clients cli.Clients, pod *corev1.Pod) (httpstream.Connection, error) {
	url := clients.Core.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(clients.Config)
	if err != nil {
		return nil, err
	}
	websocket, err := portforward.NewSPDYOverWebsocketDialerForStreaming(url, clients.Config)
	if err != nil {
		return nil, err
	}
	dialer := portforward.NewFallbackDialerForStreaming(websocket, spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, url), func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	connection, _, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
	return connection, err
}

// get asks the agent over two streams of the connection: one for what it says, and one for why it cannot be reached.
func get(connection httpstream.Connection) (*proxyconfig.Config, error) {
	headers := http.Header{}
	headers.Set(corev1.PortHeader, strconv.Itoa(proxypod.HealthPort))
	headers.Set(corev1.PortForwardRequestIDHeader, "0")
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
	config, err := exchange(data)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		if reason, _ := io.ReadAll(io.LimitReader(failures, 1000)); len(reason) > 0 {
			err = errors.New(strings.TrimSpace(string(reason)))
		}
	}
	return config, err
}

func exchange(stream io.ReadWriter) (*proxyconfig.Config, error) {
	request, err := http.NewRequest(http.MethodGet, "http://localhost"+proxyconfig.Path, nil) //nolint:noctx // the connection is closed when it is over
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
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return nil, errors.New("its agent is of a version that does not tell")
	default:
		return nil, fmt.Errorf("its agent answers %s", response.Status)
	}
	config := &proxyconfig.Config{}
	if err := json.NewDecoder(io.LimitReader(response.Body, maxAnswer)).Decode(config); err != nil {
		return nil, fmt.Errorf("its agent's answer is not understood: %w", err)
	}
	return config, nil
}
