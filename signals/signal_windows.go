package signals

import (
	"os"
	"syscall"
)

// Go turns closing the console, logging off and shutting down into SIGTERM on Windows.
var shutdownSignals = []os.Signal{os.Interrupt, syscall.SIGTERM}
