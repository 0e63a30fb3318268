// Command acmesolver answers a challenge of HTTP-01, as cert-manager's acmesolver does in the pods that it makes.
package main

import (
	"flag"
	"log"

	"github.com/cert-manager/cert-manager/pkg/issuer/acme/http/solver"
	"github.com/go-logr/logr"
)

func main() {
	var s solver.HTTP01Solver
	flag.IntVar(&s.ListenPort, "listen-port", 8089, "port to listen at")
	flag.StringVar(&s.Domain, "domain", "", "host of the challenge")
	flag.StringVar(&s.Token, "token", "", "token of the challenge")
	flag.StringVar(&s.Key, "key", "", "answer")
	flag.Parse()
	log.Fatal(s.Listen(logr.Discard()))
}
