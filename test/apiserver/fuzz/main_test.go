// Package fuzz checks that nothing an API server admits as a Gateway makes a configuration that HAProxy refuses, or
// that means anything else than it should.
package fuzz

import (
	"flag"
	"testing"

	"gateway/internal/testtier"
	"gateway/test/internal/testenv"
)

var (
	server *testenv.Server

	first = flag.Int64("first", 0, "the number of the first Gateway to make")
	count = flag.Int64("objects", map[bool]int64{false: 250, true: 2000}[testtier.All], "how many Gateways the API server has to admit")
	// Most failures have the same cause.
	failures = flag.Int64("failures", 5, "after how many failures to stop")
)

func TestMain(m *testing.M) {
	testenv.Main(m, &server, true)
}
