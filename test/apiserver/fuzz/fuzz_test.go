package fuzz

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/filters"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/plan"
	"gateway/internal/haproxy/render"
	"gateway/internal/routing"
	source "gateway/internal/source/appv1"
	"gateway/internal/testtier"
)

var gateways = schema.GroupVersionResource{Group: "app.example.com", Version: "v1", Resource: "gateways"}

// run is the state that all workers share.
type run struct {
	schema       object
	certificates *certificates
	seed         uint64
	next         atomic.Int64
	admitted     atomic.Int64
	failed       atomic.Int64

	mu sync.Mutex
	// reached counts, by field, the admitted hostile strings; refused the reasons of the API server.
	reached, refused map[string]int
	// strings are the fields that are strings and no enum.
	strings map[string]wanted
}

// TestAdmittedGateways makes random Gateways from the published schema. None that the API server admits may make a
// configuration that HAProxy refuses, or that holds a line it should not.
func TestAdmittedGateways(t *testing.T) {
	root := publishedSchema(t)
	r := &run{schema: root, certificates: newCertificates(t), reached: map[string]int{}, refused: map[string]int{}, strings: map[string]wanted{}}
	r.seed = testtier.Seed(t)
	r.next.Store(*first)
	prepare(root)
	stringFields("spec", root, r.strings)
	t.Run("workers", func(t *testing.T) {
		for i := range 3 * runtime.NumCPU() {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				r.work(t)
			})
		}
	})
	made, admitted := r.next.Load()-*first, r.admitted.Load()
	t.Logf("%d Gateways were made, %d admitted", made, admitted)
	if admitted*2 < made && !t.Failed() {
		t.Errorf("only %d of %d Gateways were admitted, so this tests less than it seems:\n%v", admitted, made, r.refused)
	}
	r.expectHostile(t)
}

// work makes and checks Gateways until enough were admitted.
func (r *run) work(t *testing.T) {
	t.Helper()
	paths := haproxytest.NewPaths(t)
	paths.CertificateDir = r.certificates.dir
	for r.admitted.Load() < *count && r.failed.Load() < *failures {
		n := r.next.Add(1) - 1
		g := &generator{r: rand.New(rand.NewPCG(r.seed, uint64(n)))}
		gateway := g.gateway(r.schema)
		if err := r.check(t, g, gateway, paths); err != nil {
			r.failed.Add(1)
			text, _ := yaml.Marshal(gateway)
			t.Errorf("%v\nThis Gateway did it; to see it again: go test ./apiserver/fuzz -seed=%d -first=%d -objects=1\n%.6000s", err, r.seed, n, text)
		}
	}
}

// gateway returns a random Gateway.
func (g *generator) gateway(schema object) object {
	spec := g.value("spec", schema).(object)
	// Some stay as chance made them.
	if !g.chance(2) {
		g.repair(spec)
	}
	// And some get a string somewhere that the schema may not want.
	if g.chance(15) {
		if places := stringPlaces(spec, nil); len(places) > 0 {
			places[g.r.IntN(len(places))](combined(g.r))
		}
	}
	name := pick(g, "shop", "a", "if", strings.Repeat("g", 55))
	return object{"apiVersion": "app.example.com/v1", "kind": "Gateway", "metadata": object{"name": name}, "spec": spec}
}

// stringPlaces returns functions that replace the strings of a value.
func stringPlaces(value any, places []func(string)) []func(string) {
	switch value := value.(type) {
	case object:
		for _, field := range sortedKeys(value) {
			if _, ok := value[field].(string); ok {
				places = append(places, func(s string) { value[field] = s })
			}
			places = stringPlaces(value[field], places)
		}
	case []any:
		for i := range value {
			if _, ok := value[i].(string); ok {
				places = append(places, func(s string) { value[i] = s })
			}
			places = stringPlaces(value[i], places)
		}
	}
	return places
}

// check lets the API server judge a Gateway, and HAProxy if it is admitted.
func (r *run) check(t *testing.T, g *generator, gateway object, paths ir.Paths) (err error) {
	t.Helper()
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("panic: %v\n%s", panicked, debug.Stack())
		}
	}()
	// By way of JSON, which makes the strings and numbers what any client sends.
	text, err := json.Marshal(gateway)
	if err != nil {
		return err
	}
	sent := &unstructured.Unstructured{}
	if err := sent.UnmarshalJSON(text); err != nil {
		return err
	}
	options := metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict, DryRun: []string{metav1.DryRunAll}}
	created, err := server.Dynamic.Resource(gateways).Namespace("default").Create(t.Context(), sent, options)
	if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		r.noteRefusal(err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("the API server neither admits nor refuses it: %w", err)
	}
	if text, err = created.MarshalJSON(); err != nil {
		return err
	}
	var typed appv1.Gateway
	if err := json.Unmarshal(text, &typed); err != nil {
		return fmt.Errorf("an admitted Gateway does not fit its type: %w", err)
	}
	if err := r.checkRendered(t, g, &typed, paths); err != nil {
		return err
	}
	r.note(created.Object["spec"])
	r.admitted.Add(1)
	return nil
}

// checkRendered makes HAProxy's files for a Gateway, and looks at them as HAProxy does and as a reader does.
func (r *run) checkRendered(t *testing.T, g *generator, gateway *appv1.Gateway, paths ir.Paths) error {
	t.Helper()
	in, err := r.input(g, gateway, paths)
	if err != nil {
		return err
	}
	rendered := render.Render(in)
	if again := render.Render(in); !reflect.DeepEqual(rendered, again) {
		return errors.New("the same input was rendered in two ways")
	}
	if change := plan.Diff(rendered, rendered); !change.Empty() {
		return fmt.Errorf("a configuration differs from itself: %+v", change)
	}
	files := rendered.AllFiles()
	if err := os.RemoveAll(paths.ConfigDir); err != nil {
		return err
	}
	return errors.Join(haproxytest.Check(t, paths, files), checkFiles(rendered, files))
}

// checkFiles reads the files of a configuration.
func checkFiles(rendered ir.Config, files map[string][]byte) error {
	errs := []error{checkConfig(files[ir.ConfigFile])}
	for name, content := range files {
		if !strings.HasPrefix(name, "page-") { // which HAProxy sends as it is
			errs = append(errs, checkText(name, content))
		}
	}
	entries := map[string][]ir.MapEntry{ir.ConditionsFile: ir.ConditionEntries(rendered.Lists)}
	for content := range rendered.Contents.Values() {
		entries[content.File] = append(entries[content.File], content.Entries...)
	}
	for name, pairs := range rendered.Maps {
		for key, value := range pairs.All() {
			entries[name] = append(entries[name], ir.MapEntry{Key: key, Value: value})
		}
	}
	for name, all := range entries {
		errs = append(errs, checkMap(name, all, files[name]))
	}
	for name := range rendered.Certificates {
		errs = append(errs, checkCertificates(name, files[name]))
	}
	return errors.Join(errs...)
}

// input is what the agent would have gathered for a Gateway whose references are mostly there.
func (r *run) input(g *generator, gateway *appv1.Gateway, paths ir.Paths) (render.Input, error) {
	table, _ := routing.Compile(source.Translate(gateway), filters.Problem)
	in := render.Input{
		Table: table, Paths: paths,
		Backends: map[routing.Backend]render.BackendState{}, Certificates: map[string][]render.Certificate{}, Authorities: map[string][]byte{},
	}
	for _, backend := range table.Backends() {
		state := render.BackendState{Exists: !g.chance(5)}
		if g.chance(40) {
			state.AppProtocol = pick(g, "http", "https", "kubernetes.io/h2c", "kubernetes.io/ws", "kubernetes.io/wss", "grpc", "a b\n\"#")
		}
		for i := range g.r.IntN(4) {
			state.Servers = append(state.Servers, ir.Server{Address: pick(g, fmt.Sprint("10.0.0.", i), fmt.Sprint("fd00::", i+1)), Port: int32(1 + g.r.IntN(65535))})
		}
		in.Backends[backend] = state
	}
	for i := range gateway.Spec.Listeners {
		if err := r.addCertificates(g, &in, &gateway.Spec.Listeners[i]); err != nil {
			return in, err
		}
	}
	for i := range gateway.Spec.Backends {
		if tls := gateway.Spec.Backends[i].TLS; tls != nil {
			r.addAuthorities(g, &in, tls.CACertificateRefs)
		}
	}
	return in, nil
}

func (r *run) addCertificates(g *generator, in *render.Input, listener *appv1.Listener) error {
	if listener.TLS == nil {
		return nil
	}
	name := string(listener.Name)
	for _, ref := range listener.TLS.CertificateRefs {
		if g.chance(10) {
			continue
		}
		if err := r.certificates.write(ref.Name); err != nil {
			return err
		}
		in.Certificates[name] = append(in.Certificates[name], render.Certificate{Secret: ref.Name, Names: g.names(string(listener.Hostname))})
	}
	if validation := listener.TLS.ClientValidation; validation != nil {
		r.addAuthorities(g, in, validation.CACertificateRefs)
	}
	return nil
}

// names are the names of a certificate. They are text of whoever made the certificate.
func (g *generator) names(hostname string) []string {
	names := []string{pick(g, cmp.Or(hostname, "a.b"), "shop.example.com", "*.example.com", "a.b.c.example.com")}
	for range g.r.IntN(3) {
		names = append(names, strings.ToLower(combined(g.r)))
	}
	return names
}

func (r *run) addAuthorities(g *generator, in *render.Input, refs []appv1.ObjectReference) {
	for _, ref := range refs {
		if !g.chance(5) {
			in.Authorities[ref.Name] = r.certificates.authority
		}
	}
}
