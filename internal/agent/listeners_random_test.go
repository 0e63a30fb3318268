package agent

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"gateway/internal/haproxy/filters"
	"gateway/internal/haproxy/plan"
	"gateway/internal/haproxy/render"
	"gateway/internal/model"
	"gateway/internal/routing"
	"gateway/internal/testtier"
	"gateway/internal/tree"
)

// listening is a random Gateway whose listeners change one by one.
type listening struct {
	*rand.Rand
	listeners    []model.Listener
	routes       map[string]*model.Route
	certificates map[string][]render.Certificate
}

// listener returns a listener at a port and hostname that no other has.
func (w *listening) listener(name string) model.Listener {
	l := model.Listener{Name: name, Protocol: model.ProtocolHTTPS}
	for isTaken := true; isTaken; {
		l.Port = int32(443 + w.IntN(2))
		l.Hostname = []string{"", "*.a.io", "x.a.io", "y.a.io", "*.x.a.io", "z.x.a.io", "b.io"}[w.IntN(7)]
		isTaken = slices.ContainsFunc(w.listeners, func(o model.Listener) bool { return o.Name != name && o.Port == l.Port && o.Hostname == l.Hostname })
	}
	l.TLS = &model.ListenerTLS{MinVersion: []string{"TLSv1.2", "TLSv1.3"}[w.IntN(2)], HSTS: []string{"", "max-age=1"}[w.IntN(2)]}
	switch w.IntN(12) {
	case 0:
		l.TLS.ClientCAs, l.TLS.ClientRequired = []string{"ca"}, true
	case 1:
		l.TLS.ClientCAs = []string{"gone"}
	case 2:
		l.Protocol, l.TLS = model.ProtocolTLS, nil
	case 3:
		l.Filters = &model.Action{MaxBody: new(int64(w.IntN(2)))}
	}
	return l
}

// issue gives a listener other certificates.
func (w *listening) issue(l *model.Listener) {
	delete(w.certificates, l.Name)
	for i := range w.IntN(3) {
		names := []string{l.Hostname}
		if l.Hostname == "" || l.Hostname[0] == '*' {
			names = append(names, []string{"x.a.io", "y.a.io", "b.io", "q.x.a.io", "*.x.a.io"}[w.IntN(5)])
		}
		if names[0] == "" {
			names = names[1:]
		}
		w.certificates[l.Name] = append(w.certificates[l.Name], render.Certificate{
			Secret: fmt.Sprint("secret-", w.IntN(3)), Names: names, KeyType: []string{"RSA", "ECDSA"}[i],
		})
	}
}

// edit makes a random edit.
func (w *listening) edit() string {
	name := fmt.Sprint("l", w.IntN(6))
	i := slices.IndexFunc(w.listeners, func(l model.Listener) bool { return l.Name == name })
	switch w.IntN(6) {
	case 0:
		if i >= 0 {
			w.listeners = slices.Delete(slices.Clone(w.listeners), i, i+1)
		}
		return "no listener " + name
	case 1:
		if i >= 0 {
			w.issue(&w.listeners[i])
		}
		return "certificates of " + name
	case 2, 3:
		key := fmt.Sprint("r", w.IntN(6))
		if w.IntN(4) == 0 {
			delete(w.routes, key)
			return "no route " + key
		}
		route := &model.Route{Kind: "HTTPRoute", Name: key, Hostnames: []string{[]string{"", "*.a.io", "x.a.io", "z.x.a.io"}[w.IntN(4)]}}
		for n := range 6 {
			if w.IntN(3) == 0 {
				route.Listeners = append(route.Listeners, fmt.Sprint("l", n))
			}
		}
		route.Rules = []model.Rule{{
			Action:   &model.Action{},
			Matches:  []model.Match{{Path: []string{"/", "/a/"}[w.IntN(2)], PathType: model.Prefix}},
			Backends: []model.Target{{Backend: model.Backend{Namespace: "team", Service: fmt.Sprint("s", w.IntN(3)), Port: 80}, Weight: 1}},
		}}
		w.routes[key] = route
		return "route " + key
	}
	l := w.listener(name)
	if w.listeners = slices.Clone(w.listeners); i < 0 {
		w.listeners = append(w.listeners, l)
	} else {
		w.listeners[i] = l
	}
	if w.IntN(3) > 0 {
		w.issue(&l)
	}
	return fmt.Sprintf("listener %+v", l)
}

// TestListenersChangeOneByOne: after each of many random edits of listeners, their certificates and routes, what was
// made of the one before is what is made from the start, and plans of both are the same.
func TestListenersChangeOneByOne(t *testing.T) {
	t.Parallel()
	w := &listening{Rand: rand.New(rand.NewPCG(testtier.Seed(t), 1)), routes: map[string]*model.Route{}, certificates: map[string][]render.Certificate{}}
	compiler, counter := routing.Compiler{Check: filters.Problem}, routing.Compiler{Check: filters.Problem}
	var renderer render.Renderer
	states := map[model.Backend]render.BackendState{}
	for i := range 3 {
		states[model.Backend{Namespace: "team", Service: fmt.Sprint("s", i), Port: 80}] = render.BackendState{Exists: i > 0}
	}
	input := func(table routing.Table) render.Input {
		certificates := map[string][]render.Certificate{}
		for name, all := range w.certificates {
			certificates[name] = all
		}
		return render.Input{Table: table, Backends: states, Certificates: certificates, Authorities: map[string][]byte{"ca": []byte("CA")}}
	}
	before := render.Render(input(routing.Table{}))
	for i := range 3 * edits {
		what := w.edit()
		gateway := &model.Gateway{Listeners: slices.Clone(w.listeners), Routes: tree.Of(w.routes)}
		for j := range gateway.Listeners {
			gateway.Listeners[j].TLS = cloned(gateway.Listeners[j].TLS)
		}
		table, wantProblems := routing.Compile(gateway, filters.Problem)
		fresh := routing.Compiler{Check: filters.Problem}
		fresh.Problems(gateway)
		want := render.Render(input(table))
		incremental, problems := compiler.Compile(gateway)
		got := renderer.Render(input(incremental))
		counter.Problems(gateway)
		switch {
		case !reflect.DeepEqual(incremental, table):
			t.Fatalf("edit %d, %s: the table is\n%+v, want\n%+v", i, what, incremental, table)
		case !reflect.DeepEqual(problems, wantProblems):
			t.Fatalf("edit %d, %s: the problems are\n%v, want\n%v", i, what, problems, wantProblems)
		case !reflect.DeepEqual(counter.Unreachable(), fresh.Unreachable()):
			t.Fatalf("edit %d, %s: these get no requests:\n%v, want\n%v", i, what, counter.Unreachable(), fresh.Unreachable())
		case !reflect.DeepEqual(got, want) || got.Hash() != want.Hash():
			t.Fatalf("edit %d, %s: got\n%+v, want\n%+v", i, what, got, want)
		}
		told, anew := plan.Change(before, got, before, false), plan.Change(before, want, before, false)
		told.After, anew.After = want, want
		if !reflect.DeepEqual(told, anew) {
			t.Fatalf("edit %d, %s: the plan is\n%+v, want\n%+v", i, what, told, anew)
		}
		before = got
	}
}

func cloned[T any](p *T) *T {
	if p == nil {
		return nil
	}
	copied := *p
	return &copied
}
