package clitest

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// PortForward is what an API server and a kubelet do with a request for pods/portforward, for a pod whose ports have
// the handlers. It speaks SPDY alone, as older API servers.
func PortForward(ports map[int]http.Handler) http.Handler {
	return http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		if request.Header.Get("Upgrade") == "websocket" {
			http.Error(writer, "no WebSockets", http.StatusForbidden)
			return
		}
		if _, err := httpstream.Handshake(request, writer, []string{portforward.PortForwardProtocolV1Name}); err != nil {
			return // it has answered
		}
		streams := make(chan httpstream.Stream)
		connection := spdy.NewResponseUpgrader().UpgradeResponse(writer, request, func(stream httpstream.Stream, _ <-chan struct{}) error {
			go func() { streams <- stream }()
			return nil
		})
		if connection == nil {
			return // it has answered
		}
		defer connection.Close() //nolint:errcheck // all was written
		// The two streams of a request come in any order.
		requests := map[string]map[string]httpstream.Stream{}
		for {
			select {
			case stream := <-streams:
				id := stream.Headers().Get(corev1.PortForwardRequestIDHeader)
				if requests[id] == nil {
					requests[id] = map[string]httpstream.Stream{}
				}
				requests[id][stream.Headers().Get(corev1.StreamType)] = stream
				data, failure := requests[id][corev1.StreamTypeData], requests[id][corev1.StreamTypeError]
				if data == nil || failure == nil {
					continue
				}
				port, _ := strconv.Atoi(data.Headers().Get(corev1.PortHeader))
				go forward(data, failure, ports[port])
			case <-connection.CloseChan():
				return
			}
		}
	})
}

// forward answers the request of a data stream. Without a handler, it reports that nobody listens.
func forward(data, failure httpstream.Stream, handler http.Handler) {
	defer data.Close()    //nolint:errcheck // all was written
	defer failure.Close() //nolint:errcheck // all was written
	if handler == nil {
		_, _ = failure.Write([]byte("nobody listens"))
		return
	}
	request, err := http.ReadRequest(bufio.NewReader(data))
	if err != nil {
		return
	}
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	_ = recorder.Result().Write(data)
}
