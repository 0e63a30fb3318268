// Command collector is what a test sends spans to: the OTLP receiver of the OpenTelemetry Collector. Beside it is a
// backend that continues traces with OpenTelemetry's SDK, and sends its spans there, too.
//
//	collector COLLECTOR BACKEND
//
// are the addresses of both. It prints an empty line when they are served, and then what the collector gets, as JSON.
package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"

	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/trace"
)

func main() {
	if err := run(context.Background(), os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, collector, backend string) error {
	if err := receive(ctx, collector); err != nil {
		return err
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpoint(collector), otlptracehttp.WithInsecure())
	if err != nil {
		return err
	}
	// Its sampler is the default one, which does what the parent does.
	provider := trace.NewTracerProvider(trace.WithSyncer(exporter))
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", backend)
	if err != nil {
		return err
	}
	fmt.Println()
	return http.Serve(listener, otelhttp.NewHandler(
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), "backend",
		otelhttp.WithTracerProvider(provider), otelhttp.WithPropagators(propagation.TraceContext{}),
	))
}

// receive starts the collector's receiver.
func receive(ctx context.Context, address string) error {
	factory := otlpreceiver.NewFactory()
	config := factory.CreateDefaultConfig().(*otlpreceiver.Config)
	config.Protocols.HTTP.GetOrInsertDefault().ServerConfig.NetAddr.Endpoint = address
	sink, err := consumer.NewTraces(func(_ context.Context, traces ptrace.Traces) error {
		line, err := (&ptrace.JSONMarshaler{}).MarshalTraces(traces)
		if err != nil {
			return err
		}
		_, err = fmt.Printf("%s\n", line)
		return err
	})
	if err != nil {
		return err
	}
	receiver, err := factory.CreateTraces(ctx, receivertest.NewNopSettings(factory.Type()), config, sink)
	if err != nil {
		return err
	}
	return receiver.Start(ctx, componenttest.NewNopHost())
}
