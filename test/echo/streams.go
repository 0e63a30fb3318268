package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/websocket"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// serveEvents sends server-sent events until there were enough of them, the client goes, or the program ends.
func (h *handler) serveEvents(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	interval, err := time.ParseDuration(query.Get("interval"))
	if err != nil || interval <= 0 {
		interval = time.Second
	}
	// No or a bad number is 0: without an end.
	count, _ := strconv.Atoi(query.Get("count"))
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for i := 1; ; i++ {
		if _, err := fmt.Fprintf(w, "id: %d\ndata: %s\n\n", i, h.version); err != nil {
			return
		}
		if err := http.NewResponseController(w).Flush(); err != nil || i == count {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-h.streams.Done():
			return
		case <-ticker.C:
		}
	}
}

// message is a WebSocket message of either kind.
type message struct {
	kind byte
	data []byte
}

// messages keeps the kind of messages, which the package's own codecs set by the type of the value.
var messages = websocket.Codec{
	Marshal: func(v any) ([]byte, byte, error) {
		m := v.(message)
		return m.data, m.kind, nil
	},
	Unmarshal: func(data []byte, kind byte, v any) error {
		*v.(*message) = message{kind, data}
		return nil
	},
}

// serveWebSocket sends messages back until the client closes the connection or the program ends.
func (h *handler) serveWebSocket(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor != 1 || !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		w.Header().Set("Upgrade", "websocket")
		http.Error(w, "this is a WebSocket", http.StatusUpgradeRequired)
		return
	}
	// Not websocket.Handler: it refuses clients that are no browsers, as they send no Origin.
	websocket.Server{Handler: func(connection *websocket.Conn) {
		// Ends Receive; then the package sends a close frame.
		stop := context.AfterFunc(h.streams, func() { _ = connection.SetReadDeadline(time.Now()) })
		defer stop()
		for {
			var m message
			if messages.Receive(connection, &m) != nil || messages.Send(connection, m) != nil {
				return
			}
		}
	}}.ServeHTTP(w, r)
}

// messageService is a gRPC service echo.Echo with a stream Echo that sends every message back, until the client or the
// program ends. Its messages are health checks for want of another type in the library.
func messageService(streams context.Context) *grpc.ServiceDesc {
	echo := func(_ any, stream grpc.ServerStream) error {
		ended := make(chan error, 1)
		go func() { ended <- sendBack(stream) }()
		select {
		case err := <-ended:
			return err
		case <-streams.Done():
			return status.Error(codes.Unavailable, "the backend ends")
		}
	}
	return &grpc.ServiceDesc{ServiceName: "echo.Echo", Streams: []grpc.StreamDesc{
		{StreamName: "Echo", Handler: echo, ClientStreams: true, ServerStreams: true},
	}}
}

func sendBack(stream grpc.ServerStream) error {
	for {
		var message grpc_health_v1.HealthCheckRequest
		if err := stream.RecvMsg(&message); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := stream.SendMsg(&message); err != nil {
			return err
		}
	}
}
