#!/usr/bin/env bash
# Flagger v1.36.1 with the provider gatewayapi:v1, on its first look at a Canary.
#
# Expected by most: the HTTPRoute is made, and all is well.
# Seen: the HTTPRoute is made, and then Flagger fails with "HTTPRoute .shop update error: resource name may not be
# empty". It goes on with the empty object that it got when it looked for the route. The next look succeeds.
#
# docs/how-to/progressive-delivery.md tells readers of the error, which looks like one of the Gateway API's controller.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export GOWORK=off GOFLAGS=-mod=mod
cd "$dir"
cat >go.mod <<'END'
module example.com/finding

go 1.26

require github.com/fluxcd/flagger v1.36.1
END
cat >main.go <<'END'
package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	flaggerv1 "github.com/fluxcd/flagger/pkg/apis/flagger/v1beta1"
	gatewayv1 "github.com/fluxcd/flagger/pkg/apis/gatewayapi/v1beta1"
	"github.com/fluxcd/flagger/pkg/client/clientset/versioned"
	"github.com/fluxcd/flagger/pkg/router"
	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// api keeps one object, as an API server does.
type api struct{ kept []byte }

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.Method != http.MethodGet:
		a.kept, _ = io.ReadAll(r.Body)
		_, _ = w.Write(a.kept)
	case a.kept != nil:
		_, _ = w.Write(a.kept)
	default:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
	}
}

func main() {
	a := &api{}
	server := httptest.NewServer(a)
	defer server.Close()
	clients := versioned.NewForConfigOrDie(&rest.Config{Host: server.URL})
	factory := router.NewFactory(nil, nil, clients, "", "", zap.NewNop().Sugar(), clients, false)
	canary := &flaggerv1.Canary{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "api"}}
	canary.Spec.TargetRef.Name = "api"
	canary.Spec.Service.Port = 80
	canary.Spec.Service.GatewayRefs = []gatewayv1.ParentReference{{Name: "shop"}}
	canary.Spec.Analysis = &flaggerv1.CanaryAnalysis{StepWeight: 10, MaxWeight: 50}
	for range 2 {
		err := factory.MeshRouter("gatewayapi:v1", "app").Reconcile(canary)
		fmt.Printf("kept %t, error: %v\n", a.kept != nil, err)
	}
}
END
go mod tidy >"$dir/log" 2>&1 || {
    tail -n 3 "$dir/log" >&2
    exit 1
}
got=$(go run .)
want='kept true, error: HTTPRoute .shop update error: resource name may not be empty while reconciling
kept true, error: <nil>'
[[ $got == "$want" ]] || {
    echo "changed: got $got" >&2
    exit 1
}
echo "as seen: the first look makes the HTTPRoute and fails, the second succeeds"
