package routing_test

import (
	"fmt"
	"reflect"
	"testing"

	"gateway/internal/haproxy/filters"
	"gateway/internal/model"
	"gateway/internal/routing"
	"gateway/internal/testtier"
)

// edits is how many random edits TestCompilerEdits makes.
var edits = 300

// TestCompilerEdits: a Compiler that compiled a Gateway before makes of its edited copy what a new one does, also where
// the conditions of several routes together are too many. Hosts that no edit is about are the same pointers.
func TestCompilerEdits(t *testing.T) {
	t.Parallel()
	r := testtier.Rand(t)
	compiler, lister := &routing.Compiler{Check: filters.Problem}, &routing.Compiler{Check: filters.Problem}
	gateway := &model.Gateway{}
	hostnames := []string{"a.io", "b.io", "x.b.io", "*.b.io", ""}
	listener := func(name, hostname string) model.Listener {
		l := model.Listener{Name: name, Port: 80, Protocol: model.ProtocolHTTP, Hostname: hostname}
		if r.IntN(2) == 0 {
			l.Filters = &model.Action{MaxBody: new(int64(r.IntN(2) + 1))}
		}
		return l
	}
	gateway.Listeners = []model.Listener{listener("one", ""), listener("two", "*.b.io")}
	refused := 0
	for i := range edits {
		edited := *gateway
		if r.IntN(10) == 0 {
			edited.Listeners = []model.Listener{listener("one", ""), listener("two", hostnames[r.IntN(4)])}[:1+r.IntN(2)]
		}
		if key := fmt.Sprint(r.IntN(8)); r.IntN(3) == 0 {
			edited.Routes = edited.Routes.Without(key)
		} else {
			edited.Routes = edited.Routes.With(key, randomRoute(r.IntN, key, i, hostnames))
		}
		gateway = &edited
		got, problems := compiler.Compile(gateway)
		want, wantProblems := routing.Compile(gateway, filters.Problem)
		if !reflect.DeepEqual(got, want) || !reflect.DeepEqual(problems, wantProblems) || !reflect.DeepEqual(lister.Problems(gateway), wantProblems) {
			t.Fatalf("edit %d: got\n%+v\n%v\nwant\n%+v\n%v", i, got, problems, want, wantProblems)
		}
		again, _ := compiler.Compile(gateway)
		for j := range again.Listeners {
			if len(problems) == 0 && again.Listeners[j].Hosts != got.Listeners[j].Hosts {
				t.Fatalf("edit %d: without another edit, the hosts are others", i)
			}
		}
		refused += len(problems)
	}
	if refused == 0 {
		t.Error("no rule was refused")
	}
}

// randomRoute returns a route whose rules have few or many expressions that take long.
func randomRoute(intN func(int) int, name string, edit int, hostnames []string) *model.Route {
	route := &model.Route{Kind: "HTTPRoute", Name: name, Listeners: []string{"one", "two"}[intN(2):]}
	for range 1 + intN(2) {
		route.Hostnames = append(route.Hostnames, hostnames[intN(len(hostnames))])
	}
	for j := range 1 + intN(8) {
		match := model.Match{PathType: model.Prefix, Path: []string{"/", "/a", "/a/b"}[intN(3)]}
		switch intN(3) {
		case 0:
			match.PathType, match.Path = model.Regex, fmt.Sprintf("/[a-z]*[a-z]*%d", j)
		case 1:
			match.Headers = []model.Condition{{Name: "x", Value: fmt.Sprintf("/[a-z]*[a-z]*%d", intN(4)), Regex: true}}
		}
		route.Rules = append(route.Rules, model.Rule{
			Action:   &model.Action{},
			Matches:  []model.Match{match},
			Backends: []model.Target{{Backend: model.Backend{Service: fmt.Sprint(edit % 5), Port: 80}, Weight: 1}},
		})
	}
	return route
}
