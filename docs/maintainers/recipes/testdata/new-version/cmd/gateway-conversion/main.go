// Command gateway-conversion converts Gateways between the versions of the API, for the API server.
package main

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"time"

	"gateway/internal/conversion"
)

func main() {
	address := flag.String("address", ":8443", "`address` to serve on")
	certificate := flag.String("certificate", "/tls/tls.crt", "`file` with the certificate that the API server is to trust")
	key := flag.String("key", "/tls/tls.key", "`file` with its key")
	flag.Parse()
	server := http.Server{Addr: *address, Handler: http.HandlerFunc(conversion.Handle), ReadHeaderTimeout: 10 * time.Second}
	if err := server.ListenAndServeTLS(*certificate, *key); err != nil {
		fmt.Fprintln(os.Stderr, "gateway-conversion:", err)
		os.Exit(1)
	}
}
