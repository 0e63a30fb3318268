package signals

import (
	"context"
	"os"
	"os/signal"
)

// exitCode is that of a program stopped by a second signal, while it was still shutting down.
const exitCode = 1

// onlyOnce is closed by the first call of SetupSignalHandler; closing it again panics.
var onlyOnce = make(chan struct{})

// SetupSignalHandler returns a context that is cancelled by the first SIGINT or SIGTERM. The second one exits the
// process with code 1. It may be called once only; a second call panics, because two handlers would each count the
// signals.
func SetupSignalHandler() context.Context {
	close(onlyOnce)

	// Room for both signals: os/signal drops what it cannot deliver.
	received := make(chan os.Signal, 2)
	signal.Notify(received, shutdownSignals...)

	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-received
		cancel()
		<-received
		os.Exit(exitCode)
	}()
	return ctx
}
