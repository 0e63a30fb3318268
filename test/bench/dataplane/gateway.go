package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"

	appv1 "gateway/api/app/v1"
	"gateway/internal/certificates"
	"gateway/internal/haproxy/filters"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/render"
	"gateway/internal/passwords"
	"gateway/internal/routing"
	source "gateway/internal/source/appv1"
	"gateway/internal/volume"
)

// Routes for the host of a number, which is in place of N, and for one of the Services.
const (
	conditionsRoute = `
name: route-N
hostnames: [host-N.example.com]
rules:
  - matches: [{path: {value: /app}, headers: [{name: X-Version, value: two-N}]}]
    backendRefs: [{name: service-N, port: 80}]
  - matches: [{path: {type: RegularExpression, value: "/app/items-N/[0-9]+/edit"}}]
    backendRefs: [{name: service-N, port: 80}]
  - matches: [{path: {value: /app}}]
    backendRefs: [{name: service-N, port: 80}]
`
	filtersRoute = `
name: route-N
hostnames: [host-N.example.com]
rules:
  - matches: [{path: {value: /app}}]
    filters:
      - type: RequestHeaderModifier
        requestHeaderModifier: {set: [{name: X-Env, value: production}], remove: [Cookie]}
      - type: ResponseHeaderModifier
        responseHeaderModifier: {set: [{name: Cache-Control, value: no-cache}], remove: [Server]}
      - type: URLRewrite
        urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /v2}}
    backendRefs: [{name: service-N, port: 80}]
`
	addressRoute = `
name: route-N
hostnames: [host-N.example.com]
rules:
  - matches: [{path: {value: /app}}]
    filters: [{type: ClientAddress, clientAddress: {allow: [127.0.0.0/8]}}]
    backendRefs: [{name: service-N, port: 80}]
`
)

// routes returns as many routes like this one.
func routes(route string, n int) []appv1.Route {
	all := make([]appv1.Route, n)
	for i := range all {
		text := strings.NewReplacer("service-N", service(i%services), "N", number(i)).Replace(route)
		if err := yaml.UnmarshalStrict([]byte(text), &all[i]); err != nil {
			panic(err) // It is one of the constants above.
		}
	}
	return all
}

// plainRoutes returns a route for each host, whose rules are each for a prefix of the path and a Service.
func plainRoutes(hosts, rules, services int) []appv1.Route {
	all := make([]appv1.Route, hosts)
	for i := range all {
		all[i] = appv1.Route{Name: appv1.Name(fmt.Sprint("route-", i)), Hostnames: []appv1.Hostname{appv1.Hostname(hostname(i))}}
		for rule := range rules {
			all[i].Rules = append(all[i].Rules, appv1.RouteRule{
				Matches:     []appv1.RouteMatch{{Path: appv1.PathMatch{Type: appv1.PathMatchPathPrefix, Value: prefix(rule)}}},
				BackendRefs: []appv1.BackendRef{{Name: service((rule*hosts + i) % services), Port: 80}},
			})
		}
	}
	return all
}

func service(i int) string { return fmt.Sprint("service-", i) }

// roundRobin says of as many Services that their endpoints get requests by round robin.
func roundRobin(services int) []appv1.Backend {
	all := make([]appv1.Backend, services)
	settings := appv1.BackendSettings{LoadBalancing: &appv1.LoadBalancing{Algorithm: appv1.LoadBalancingRoundRobin}}
	for i := range all {
		all[i] = appv1.Backend{Name: service(i), Port: 80, BackendSettings: settings}
	}
	return all
}

// gateway returns HAProxy with what the agent would write for a Gateway with this spec, beside its listeners, after a
// sed script if there is one.
func gateway(name string, spec appv1.GatewaySpec, edit string) proxy {
	run := func(site *site, dir string, ports [2]int) (*process, error) {
		in, err := gatewayInput(spec, ports, site.servers)
		if err != nil {
			return nil, err
		}
		return runGateway(site, dir, in, edit)
	}
	return proxy{name: "Gateway " + name + edit, run: run}
}

// gatewayInput is what a Gateway with this spec is rendered from. The servers are those of each Service.
func gatewayInput(spec appv1.GatewaySpec, ports [2]int, servers [][]ir.Server) (render.Input, error) {
	in := render.Input{Backends: map[routing.Backend]render.BackendState{}}
	spec.Listeners = []appv1.Listener{
		{Name: "http", Port: int32(ports[0]), Protocol: appv1.ProtocolHTTP},
		{Name: "https", Port: int32(ports[1]), Protocol: appv1.ProtocolHTTPS, TLS: &appv1.ListenerTLS{}},
	}
	var problems []routing.Problem
	if in.Table, problems = routing.Compile(source.Translate(&appv1.Gateway{Spec: spec}), filters.Problem); len(problems) > 0 {
		return in, fmt.Errorf("the Gateway is not usable: %v", problems)
	}
	for i := range servers {
		in.Backends[routing.Backend{Service: service(i), Port: 80}] = render.BackendState{Exists: true, Servers: servers[i]}
	}
	in.Certificates = map[string][]render.Certificate{"https": {{Secret: "certificate", Names: []string{"*.example.com"}}}}
	return in, nil
}

// runGateway starts HAProxy. Its first listener tells when it is up.
func runGateway(site *site, dir string, in render.Input, edit string) (*process, error) {
	metrics, err := site.port()
	if err != nil {
		return nil, err
	}
	in.Paths = ir.Paths{ConfigDir: dir, RunDir: dir, CertificateDir: filepath.Join(dir, "pairs"), UsersSocket: filepath.Join(dir, "users.sock"), WAFSocket: filepath.Join(dir, "waf.sock")}
	in.Bind = render.Bind{Addresses: []string{"127.0.0.1"}, MetricsPort: int32(metrics)}
	files := render.Render(in).AllFiles()
	// Limits are for as many pods as there may be.
	var ids strings.Builder
	for pod := range ir.MaxPods {
		ids.WriteString(ir.PodID(fmt.Sprint(pod)))
	}
	files[ir.PodsFile] = []byte(ir.PodsKey + " " + ids.String() + "\n")
	for name, content := range files {
		if err := write(dir, name, content); err != nil {
			return nil, err
		}
	}
	if err := writeCertificate(filepath.Join(in.Paths.CertificateDir, "certificate")); err != nil {
		return nil, err
	}
	file := filepath.Join(dir, ir.ConfigFile)
	if edit != "" {
		if out, err := exec.Command("sed", "-i", "-E", edit, file).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("failed to edit %s: %w: %s", ir.ConfigFile, err, out)
		}
	}
	if in.Table.Tracing != nil {
		if err := discard(in.Paths.TracesSocket()); err != nil {
			return nil, err
		}
	}
	var programs []*exec.Cmd
	if in.Table.Uses.SecretFiles.Len() > 0 {
		keys, err := keysProgram(dir, in.Paths)
		if err != nil {
			return nil, err
		}
		programs = append(programs, keys)
	}
	if files[ir.WAFFile] != nil {
		waf, err := wafProgram(dir, in.Paths)
		if err != nil {
			return nil, err
		}
		programs = append(programs, waf)
	}
	return start(int(in.Table.Listeners[0].Port), append(programs, pinned("haproxy", "-db", "-f", file))...)
}

// discard takes what HAProxy sends to a socket, as the agent would.
func discard(socket string) error {
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return fmt.Errorf("failed to listen: %w", err)
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(io.Discard, conn) }()
		}
	}()
	return nil
}

// keysProgram returns the program that checks passwords and keeps API keys.
func keysProgram(dir string, paths ir.Paths) (*exec.Cmd, error) {
	program, secrets := filepath.Join(dir, "gateway-keys"), filepath.Join(dir, "secrets")
	if out, err := exec.Command("go", "build", "-o", program, "gateway/cmd/gateway-keys").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("failed to build gateway-keys: %w: %s", err, out)
	}
	for _, name := range []string{"secrets", "pairs", "shown"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			return nil, fmt.Errorf("failed to make a directory: %w", err)
		}
	}
	if err := volume.Replace(secrets, map[string][]byte{
		usersSecret + "/" + certificates.UsersFile: []byte(usersFile), usersSecret + "/" + certificates.APIKeysFile: []byte("shop:" + passwords.Hash(apiKey)),
		usersSecret + "/" + certificates.SessionKeysFile: []byte(sessionKey),
	}); err != nil {
		return nil, err
	}
	return pinned(program, "-secrets-dir="+secrets, "-pairs-dir="+paths.CertificateDir, "-certificates-dir="+filepath.Join(dir, "shown"),
		"-haproxy-socket="+paths.WorkerSocket(), "-users-socket="+paths.UsersSocket), nil
}

func write(dir, name string, content []byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("failed to make a directory: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
		return fmt.Errorf("failed to write %s: %w", name, err)
	}
	return nil
}
