package routing_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/filters"
	"gateway/internal/model"
	"gateway/internal/routing"
	"gateway/internal/routing/routingtest"
	source "gateway/internal/source/appv1"
	"gateway/internal/testtier"
)

var (
	// unreachableTables is how many random tables TestUnreachableAgrees looks at, and unreachableEdits how many edits
	// TestUnreachableEdits makes.
	unreachableTables = 400
	unreachableEdits  = 300
)

// unreachableOf returns what Unreachable says of a Gateway.
func unreachableOf(gateway *model.Gateway) []string {
	compiler := &routing.Compiler{Check: filters.Problem}
	compiler.Problems(gateway)
	var all []string
	for _, problem := range compiler.Unreachable() {
		all = append(all, problem.Route+" "+problem.Message)
	}
	return all
}

// TestUnreachable: a rule, or a match of one, that another takes all requests from is named with the other.
func TestUnreachable(t *testing.T) { //nolint:funlen // a flat table
	prefix := func(path string) model.Match { return model.Match{PathType: model.Prefix, Path: path} }
	exact := func(path string) model.Match { return model.Match{PathType: model.Exact, Path: path} }
	expression := func(path string) model.Match { return model.Match{PathType: model.Regex, Path: path} }
	with := func(match model.Match, method string, headers ...model.Condition) model.Match {
		match.Method, match.Headers = method, headers
		return match
	}
	at := func(hostnames ...string) func(matches ...model.Match) model.Route {
		return func(matches ...model.Match) model.Route {
			route := model.Route{Kind: "HTTPRoute", Listeners: []string{"all"}, Hostnames: hostnames}
			for _, match := range matches {
				route.Rules = append(route.Rules, model.Rule{Action: &model.Action{}, Matches: []model.Match{match}})
			}
			return route
		}
	}
	anywhere := at("")
	header := func(value string, isRegex bool) model.Condition {
		return model.Condition{Name: "x", Value: value, Regex: isRegex}
	}
	for name, test := range map[string]struct {
		listeners []model.Listener
		routes    []model.Route
		want      []string
	}{
		"the same prefix":              {routes: []model.Route{anywhere(prefix("/a")), anywhere(prefix("/a/"))}, want: []string{`r1 rules[0] gets no requests: route "r0" rules[0] comes first and gets all of them`}},
		"in one route":                 {routes: []model.Route{anywhere(prefix("/a"), prefix("/a"))}, want: []string{"r0 rules[1] gets no requests: rules[0] comes first and gets all of them"}},
		"another prefix":               {routes: []model.Route{anywhere(prefix("/a"), prefix("/a/b"), prefix("/"))}},
		"a path within a prefix":       {routes: []model.Route{anywhere(prefix("/a"), exact("/a"))}},
		"a condition first":            {routes: []model.Route{anywhere(with(prefix("/a"), "GET"), prefix("/a"))}},
		"other methods":                {routes: []model.Route{anywhere(with(prefix("/a"), "GET"), with(prefix("/a"), "POST"))}},
		"the same headers":             {routes: []model.Route{anywhere(with(prefix("/a"), "GET", header("1", false)), with(prefix("/a"), "GET", header("1", false)))}, want: []string{"r0 rules[1] gets no requests: rules[0] comes first and gets all of them"}},
		"another header":               {routes: []model.Route{anywhere(with(prefix("/a"), "GET", header("1", false)), with(prefix("/a"), "GET", header("2", false)))}},
		"an expression for a header":   {routes: []model.Route{anywhere(with(prefix("/a"), "", header("[a-z]+", true)), with(prefix("/a"), "", header("b", false)), with(prefix("/a"), "", header("1", false)))}, want: []string{"r0 rules[1] gets no requests: rules[0] comes first and gets all of them"}},
		"an open expression":           {routes: []model.Route{anywhere(with(prefix("/a"), "", header("a.*", true)), with(prefix("/a"), "", header("ab[c-d]", true)), with(prefix("/a"), "", header("[a-b].*", true)))}, want: []string{"r0 rules[1] gets no requests: rules[0] comes first and gets all of them"}},
		"an expression before another": {routes: []model.Route{anywhere(expression("/a.*"), expression("/ab[0-9]+"), expression("/[ab].*"), prefix("/ab"), prefix("/b"), prefix("/"))}, want: []string{"r0 rules[1] gets no requests: rules[0] comes first and gets all of them", "r0 rules[3] gets no requests: rules[0] comes first and gets all of them"}},
		"an expression for all":        {routes: []model.Route{anywhere(expression("/(.*)"), prefix("/a"), exact("/a"))}, want: []string{"r0 rules[1] gets no requests: rules[0] comes first and gets all of them"}},
		"an expression for one path":   {routes: []model.Route{anywhere(exact("/a"), expression("^/(a)$"), expression("/a/?"))}, want: []string{"r0 rules[1] gets no requests: rules[0] comes first and gets all of them"}},
		"the same expression":          {routes: []model.Route{anywhere(expression("/[a-z]+"), expression("/[a-z]+"))}, want: []string{"r0 rules[1] gets no requests: rules[0] comes first and gets all of them"}},
		"other hosts":                  {routes: []model.Route{at("a.test")(prefix("/")), at("b.test")(prefix("/"))}},
		"some of its hosts":            {routes: []model.Route{at("a.test")(prefix("/")), at("a.test", "b.test")(prefix("/"))}},
		"all of its hosts": {
			routes: []model.Route{at("a.test")(prefix("/")), at("b.test")(prefix("/")), at("a.test", "b.test")(prefix("/"))},
			want:   []string{`r2 rules[0] gets no requests: route "r0" rules[0], route "r1" rules[0] come first and get all of them`},
		},
		"a listener for fewer hosts": {
			listeners: []model.Listener{{Name: "all", Port: 80, Protocol: "HTTP", Hostname: "a.test"}},
			routes:    []model.Route{anywhere(prefix("/")), at("*.test")(prefix("/a"), exact("/b")), at("a.test")(exact("/a/b"), with(prefix("/a"), "GET"))},
			want:      nil,
		},
		"a more exact hostname of a listener": {
			listeners: []model.Listener{{Name: "all", Port: 80, Protocol: "HTTP", Hostname: "a.test"}},
			routes:    []model.Route{anywhere(exact("/a/b"), with(prefix("/a"), "GET"), prefix("/b")), at("*.test")(prefix("/a"))},
			want: []string{
				`r0 rules[0] gets no requests: route "r1" rules[0] comes first and gets all of them`,
				`r0 rules[1] gets no requests: route "r1" rules[0] comes first and gets all of them`,
			},
		},
		"another listener": {
			listeners: []model.Listener{{Name: "all", Port: 80, Protocol: "HTTP"}, {Name: "one", Port: 80, Protocol: "HTTP", Hostname: "*.test"}, {Name: "two", Port: 81, Protocol: "HTTP", Hostname: "*.example"}},
			routes:    []model.Route{at("a.test")(prefix("/")), at("test")(prefix("/")), at("a.example")(prefix("/"))},
			want:      []string{"r0 rules[0] gets no requests: listener one comes first and gets all of them"},
		},
		"one of two matches": {
			routes: []model.Route{
				anywhere(prefix("/a")),
				{Kind: "HTTPRoute", Listeners: []string{"all"}, Hostnames: []string{""}, Rules: []model.Rule{{Action: &model.Action{}, Matches: []model.Match{prefix("/a"), prefix("/b")}}}},
			},
			want: []string{`r1 rules[0].matches[0] gets no requests: route "r0" rules[0] comes first and gets all of them`},
		},
		"one match twice": {routes: []model.Route{
			{Kind: "HTTPRoute", Listeners: []string{"all"}, Hostnames: []string{""}, Rules: []model.Rule{{Action: &model.Action{}, Matches: []model.Match{prefix("/a"), prefix("/a")}}}},
		}},
		"connections": {
			listeners: []model.Listener{{Name: "all", Port: 80, Protocol: "TLS"}},
			routes:    []model.Route{at("a.test")(prefix("/")), at("a.test")(prefix("/")), at("*.test")(prefix("/"))},
			want:      []string{`r1 rules[0] gets no requests: route "r0" rules[0] comes first and gets all of them`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			gateway := &model.Gateway{Listeners: test.listeners}
			if gateway.Listeners == nil {
				gateway.Listeners = []model.Listener{{Name: "all", Port: 80, Protocol: model.ProtocolHTTP}}
			}
			for i := range test.routes {
				test.routes[i].Name = fmt.Sprint("r", i)
			}
			gateway.Routes = model.Ordered(test.routes...)
			if got := unreachableOf(gateway); !slices.Equal(got, test.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(test.want, "\n"))
			}
		})
	}
}

// TestUnreachableAgrees: in random tables, no request gets to a rule that Unreachable names. Without expressions, each
// other rule gets one.
func TestUnreachableAgrees(t *testing.T) {
	t.Parallel()
	g := routingtest.New(t)
	ports := [2]int32{80, 81}
	said, reached := 0, 0
	for i := range unreachableTables {
		g.LeaveOut()
		spec := g.Spec(ports)
		gateway := source.Translate(&appv1.Gateway{Spec: spec})
		compiler := &routing.Compiler{Check: filters.Problem}
		table, _ := compiler.Compile(gateway)
		dead := map[string]string{}
		for _, problem := range compiler.Unreachable() {
			what, _, _ := strings.Cut(problem.Message, " ")
			dead[problem.Route+" "+what] = problem.Message
		}
		said += len(dead)
		check := func(r routing.Request) {
			match, ok := table.Match(r)
			for _, host := range []string{r.Host, ""} {
				known := routing.Request{Port: r.Port, Host: host, Path: r.Path, Method: r.Method}
				if ok && !slices.Contains(table.Candidates(known), match.Rule) {
					t.Fatalf("table %d: %+v is for %s, which is no candidate of %+v", i, r, match.Rule.Route, known)
				}
			}
			if !ok {
				return
			}
			rule := fmt.Sprintf("%s rules[%d]", match.Rule.Route, match.Rule.Index)
			for _, what := range []string{rule, fmt.Sprintf("%s.matches[%d]", rule, match.Entry.Match)} {
				if message, ok := dead[what]; ok {
					t.Fatalf("table %d: %s gets %+v, but: %s", i, what, r, message)
				}
			}
		}
		for range 60 {
			check(g.Request(spec, ports).Request)
		}
		for route := range gateway.Routes.Values() {
			for j := range route.Rules {
				isReached := false
				for _, r := range witnesses(gateway, route, &route.Rules[j]) {
					check(r)
					match, ok := table.Match(r)
					isReached = isReached || ok && match.Rule.Route == route.Name && match.Rule.Index == j
				}
				if what := fmt.Sprintf("%s rules[%d]", route.Name, j); !isReached && dead[what] == "" && len(route.Listeners) > 0 && !hasExpressions(spec) {
					t.Fatalf("table %d: nothing gets to %s, and nobody says so", i, what)
				}
				if isReached {
					reached++
				}
			}
		}
	}
	if said < unreachableTables/4 || reached < unreachableTables {
		t.Errorf("of %d tables, only %d rules get no requests, and %d get some", unreachableTables, said, reached)
	}
}

// witnesses returns requests that meet the matches of a rule and as little else as possible.
func witnesses(gateway *model.Gateway, route *model.Route, rule *model.Rule) []routing.Request {
	var all []routing.Request
	for _, listener := range gateway.Listeners {
		if !slices.Contains(route.Listeners, listener.Name) {
			continue
		}
		for _, hostname := range route.Hostnames {
			if !model.HostnamesOverlap(hostname, listener.Hostname) {
				continue
			}
			if model.HostnameMatches(hostname, listener.Hostname) {
				hostname = listener.Hostname
			}
			host := strings.Replace(hostname, "*", "nobody-else", 1)
			if host == "" {
				host = "nobody.else"
			}
			for _, match := range rule.Matches {
				r := routing.Request{Port: listener.Port, Host: host, Path: match.Path, Method: match.Method, Header: map[string][]string{}}
				if match.Path[0] != '/' {
					continue // an expression, and no path
				}
				if match.PathType == model.Prefix {
					r.Path = strings.TrimSuffix(match.Path, "/") + "/nothing-else"
				}
				if r.Method == "" {
					r.Method = "NOTHING"
				}
				for _, header := range match.Headers {
					r.Header[strings.ToLower(header.Name)] = []string{header.Value}
				}
				var pairs []string
				for _, param := range match.Query {
					pairs = append(pairs, param.Name+"="+strings.NewReplacer(" ", "+", "%41", "A").Replace(param.Value))
				}
				r.Query = strings.Join(pairs, "&")
				all = append(all, r)
			}
		}
	}
	return all
}

// hasExpressions reports whether a spec has a regular expression, or paths that no request has.
func hasExpressions(spec appv1.GatewaySpec) bool {
	text := fmt.Sprintf("%+v", spec)
	return strings.Contains(text, "RegularExpression") || strings.Contains(text, "..a")
}

// TestUnreachableEdits: a Compiler that knows a Gateway finds in its edited copy what a new one does.
func TestUnreachableEdits(t *testing.T) {
	t.Parallel()
	r := testtier.Rand(t)
	compiler, found := &routing.Compiler{Check: filters.Problem}, 0
	hostnames := []string{"a.io", "b.io", "x.b.io", "*.b.io", ""}
	gateway := &model.Gateway{Listeners: []model.Listener{{Name: "one", Port: 80, Protocol: model.ProtocolHTTP}, {Name: "two", Port: 80, Protocol: model.ProtocolHTTP, Hostname: "*.b.io"}}}
	for i := range unreachableEdits {
		edited := *gateway
		if r.IntN(10) == 0 {
			edited.Listeners = slices.Clone(edited.Listeners)
			edited.Listeners[1].Hostname = hostnames[r.IntN(4)]
		}
		if key := fmt.Sprint(r.IntN(8)); r.IntN(3) == 0 {
			edited.Routes = edited.Routes.Without(key)
		} else {
			edited.Routes = edited.Routes.With(key, randomRoute(r.IntN, key, i, hostnames))
		}
		gateway = &edited
		anew := &routing.Compiler{Check: filters.Problem}
		anew.Problems(gateway)
		compiler.Problems(gateway)
		want, taken := anew.Unreachable(), anew.Taken()
		if got := compiler.Unreachable(); !reflect.DeepEqual(got, want) || !reflect.DeepEqual(compiler.Taken(), taken) {
			t.Fatalf("edit %d: got\n%+v\nwant\n%+v", i, got, want)
		}
		found += len(want)
	}
	if found == 0 {
		t.Error("no rule was unreachable")
	}
}

// BenchmarkUnreachable looks at 10,000 routes with four matches each at two listeners: all of them, and after an edit
// of one.
func BenchmarkUnreachable(b *testing.B) {
	const routes = 10_000
	for name, of := range map[string]func(i int) (hostname string, match model.Match){
		"own hosts": func(i int) (string, model.Match) {
			return fmt.Sprintf("h%d.test", i), model.Match{PathType: model.Prefix, Path: "/"}
		},
		"one host": func(i int) (string, model.Match) {
			return "", model.Match{PathType: model.Prefix, Path: fmt.Sprintf("/team/%d", i)}
		},
		"one path": func(i int) (string, model.Match) {
			return "", model.Match{PathType: model.Prefix, Path: "/", Headers: []model.Condition{{Name: "team", Value: fmt.Sprint(i)}}}
		},
	} {
		var all []model.Route
		for i := range routes {
			hostname, match := of(i)
			route := model.Route{Kind: "HTTPRoute", Name: fmt.Sprint("r", i), Listeners: []string{"http", "https"}, Hostnames: []string{hostname}}
			for _, method := range []string{"", "GET", "POST", "PUT"} {
				match.Method = method
				route.Rules = append(route.Rules, model.Rule{Action: &model.Action{}, Matches: []model.Match{match}})
			}
			all = append(all, route)
		}
		gateway := &model.Gateway{
			Listeners: []model.Listener{{Name: "http", Port: 80, Protocol: model.ProtocolHTTP}, {Name: "https", Port: 443, Protocol: model.ProtocolHTTP}},
			Routes:    model.Ordered(all...),
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				compiler := &routing.Compiler{Check: filters.Problem}
				compiler.Problems(gateway)
				b.StartTimer()
				compiler.Unreachable()
			}
		})
		b.Run(name+" edited", func(b *testing.B) {
			compiler := &routing.Compiler{Check: filters.Problem}
			edited := *gateway
			compiler.Problems(&edited)
			compiler.Unreachable()
			for i := 0; b.Loop(); i++ {
				b.StopTimer()
				route := all[i%routes]
				edited.Routes = edited.Routes.With(fmt.Sprintf("%08d", i%routes), &route)
				compiler.Problems(&edited)
				b.StartTimer()
				compiler.Unreachable()
			}
		})
	}
}
