package engine

import (
	"encoding/base64"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	coreruleset "github.com/corazawaf/coraza-coreruleset/v4"
	"github.com/corazawaf/coraza/v3"
	"github.com/corazawaf/coraza/v3/experimental/plugins/plugintypes"
	"github.com/goccy/go-yaml"

	"gateway/internal/testtier"
	"gateway/internal/waf"
)

// plainCoraza is an Engine with the rules as they are.
func plainCoraza(t testing.TB) *Engine {
	t.Helper()
	read := sync.OnceValues(func() (coraza.WAF, error) {
		return coraza.NewWAF(coraza.NewWAFConfig().WithRootFS(coreruleset.FS).WithDirectives(setup + first + rest))
	})
	e := &Engine{rules: map[kind]func() (coraza.WAF, error){}}
	for _, k := range e.kinds() {
		e.rules[k] = read
	}
	return e
}

// regression is a file of the tests of the Core Rule Set.
type regression struct {
	Tests []struct {
		ID     int `yaml:"test_id"`
		Stages []struct {
			Input struct {
				Method, URI, Version, Data string
				Headers                    yaml.MapSlice
				Encoded                    string `yaml:"encoded_request"`
			}
			Output struct {
				Log struct {
					Expected   []int `yaml:"expect_ids"`
					Unexpected []int `yaml:"no_expect_ids"`
				}
			}
		}
	}
}

// TestRegressions: the rules find in the requests of their own tests what Coraza finds with the rules as they are.
func TestRegressions(t *testing.T) {
	module, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/corazawaf/coraza-coreruleset/v4").Output()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(module)), "tests", "*", "*.yaml"))
	if err != nil || len(files) < 300 {
		t.Fatal(len(files), err)
	}
	light, whole, random := mustNew(t), plainCoraza(t), testtier.Rand(t)
	count, plain := 0, 0
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var tests regression
		if err := yaml.Unmarshal(content, &tests); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, test := range tests.Tests {
			if !testtier.All && random.IntN(40) > 0 {
				continue
			}
			for _, stage := range test.Stages {
				input := stage.Input
				r := &Request{Method: or(input.Method, "GET"), URI: or(input.URI, "/"), Version: or(input.Version, "HTTP/1.1"), Client: "192.0.2.1", Body: []byte(input.Data)}
				if encoded, err := base64.StdEncoding.DecodeString(input.Encoded); err != nil || len(encoded) > 0 {
					r.Body = encoded
				}
				for _, header := range input.Headers {
					r.Headers = append(r.Headers, Header{strings.ToLower(fmt.Sprint(header.Key)), fmt.Sprint(header.Value)})
				}
				count++
				if r.isPlain() {
					plain++
				}
				expectSame(t, light, whole, 1+random.Int32N(4), r, fmt.Sprint(filepath.Base(file), " ", test.ID))
			}
		}
	}
	t.Logf("%d requests, of them %d plain", count, plain)
	if count < 60 || plain < 5 || testtier.All && count < 4000 {
		t.Errorf("too few requests: %d, of them %d plain", count, plain)
	}
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

func mustNew(t testing.TB, own ...waf.Directive) *Engine {
	t.Helper()
	e, err := New(own...)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// expectSame compares two engines at a level. Coraza goes through values in random order, and a few rules go on with
// the last one that they have found. So a verdict may be another one the next time: then both have it at times.
func expectSame(t *testing.T, light, whole *Engine, level int32, r *Request, what string) {
	t.Helper()
	judge := func(e *Engine) string {
		verdict, err := e.Judge(waf.Settings{Paranoia: level, Threshold: 5}, r)
		return fmt.Sprintf("%+v, failed: %t", verdict, err != nil)
	}
	got, wanted := judge(light), judge(whole)
	for range 30 {
		if got == wanted {
			return
		}
		got = judge(light)
	}
	t.Errorf("%s, level %d, %s %.200q: got %s, and Coraza says %s", what, level, r.Method, r.URI, got, wanted)
}

// words are of what rules look for, and of what is harmless.
func words(t *testing.T) []string {
	t.Helper()
	all := []string{
		"", "a", "red shoes", "1", "page", "2", "0123456789abcdef", "GA1.2.1234.5678", "a.b-c_d", "/", "../", "..", "/etc/passwd", "union select", "sleep(1)", "<script>", "' or 1=1",
		"\n", "\r", "\x00", "\u017f", "\u212a", "é", "\ufffd", "\xff", "\xc0\xaf", "\xc3", "%", "%2e", "+", "=", "&", ";", "?", "-", "--", "_", "__proto__", "select", "from", "http://a.b", "javascript:", "$(", "`", "\\", "{", "}", "|",
	}
	files, err := fs.Glob(coreruleset.FS, "@owasp_crs/*.data")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		content, err := fs.ReadFile(coreruleset.FS, file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(content)) {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
				all = append(all, line)
			}
		}
	}
	return all
}

// TestGeneratedVerdicts: so it is for requests of words that rules look for.
func TestGeneratedVerdicts(t *testing.T) {
	light, whole, all, random := mustNew(t), plainCoraza(t), words(t), testtier.Rand(t)
	text := func() string {
		var text strings.Builder
		for range 1 + random.IntN(4) {
			text.WriteString(all[random.IntN(len(all))])
			text.WriteString([]string{"", " ", "/", "."}[random.IntN(4)])
		}
		return text.String()
	}
	// asPlain leaves out what no plain request has.
	asPlain := func(text string) string {
		return strings.Map(func(r rune) rune {
			if one, isASCII := lettersOf(string(r)); isASCII && plainCharacters.contains(one) {
				return r
			}
			return -1
		}, text)
	}
	escape := strings.NewReplacer(" ", "+", "%", "%25", "&", "%26", "\n", "%0a", "\r", "%0d", "\x00", "%00", "#", "%23")
	// part returns a part of a request, of plain characters alone in most.
	part := func() string {
		if random.IntN(8) == 0 {
			return escape.Replace(text())
		}
		return strings.ReplaceAll(asPlain(text()), " ", "+")
	}
	for range map[bool]int{false: 150, true: 100_000}[testtier.All] {
		r := &Request{Method: "GET", URI: "/" + part() + "?" + part() + "=" + part() + "&q=" + part(), Version: "HTTP/1.1", Client: "192.0.2.1", Headers: []Header{
			{"host", "shop.example.com"}, {"user-agent", "Mozilla/5.0 (X11; Linux x86_64)"}, {"accept", "*/*"},
			{[]string{"cookie", "Cookie"}[random.IntN(2)], part() + "=" + part() + "; s=" + part()},
		}}
		if random.IntN(4) == 0 {
			// Coraza tells headers of one name apart by where the name is in memory.
			name := strings.Clone([]string{"referer", "x-a", "user-agent"}[random.IntN(3)])
			r.Headers = append(r.Headers, Header{name, asPlain(text())})
		}
		if random.IntN(4) == 0 {
			r.Method, r.Body = "POST", []byte("a="+escape.Replace(text())+"&b="+escape.Replace(text()+text()+text()))
			r.Headers = append(r.Headers, Header{"content-type", "application/x-www-form-urlencoded"}, Header{"content-length", fmt.Sprint(len(r.Body))})
		}
		expectSame(t, light, whole, 1+random.Int32N(4), r, "generated")
	}
}

// TestExpressions: an expression finds what Go's finds, whatever its case, beyond ASCII, and around bytes that are no
// UTF-8. Most are fast.
func TestExpressions(t *testing.T) {
	all, random := words(t), testtier.Rand(t)
	texts := []string{"", "SELECT", "\u212aey", "\u017felect", "aB", "ab\ncd", "\xffselect", "sel\xffect", "select\xff"}
	for range map[bool]int{false: 150, true: 10_000}[testtier.All] {
		texts = append(texts, all[random.IntN(len(all))], all[random.IntN(len(all))]+all[random.IntN(len(all))])
	}
	files, err := fs.Glob(coreruleset.FS, "@owasp_crs/REQUEST-*.conf")
	if err != nil {
		t.Fatal(err)
	}
	rules, count, slow := filesFor(kind{}, false), 0, 0
	for _, file := range files {
		content, err := rules.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(content)) {
			_, text, _ := strings.Cut(line, "@"+filtered+" ")
			text, ok := strings.CutSuffix(text, "\" \\\n")
			if !ok || text == "" {
				continue
			}
			if !expectSameMatches(t, text, texts) {
				slow++
			}
			count++
		}
	}
	for _, text := range []string{`(?i)k`, `(?i)s`, `a?`, `(?:)`, `[^a]`, `(?i:a)b`, `^$`, `a{0,2}b{2}`, `\bx`, `[[:upper:]]`, `(?i)ſ`, `K`} {
		expectSameMatches(t, text, texts)
	}
	if count < 200 || slow > 1 {
		t.Errorf("too few expressions, or too many slow ones: %d, %d", count, slow)
	}
}

// expectSameMatches reports whether an expression is fast.
func expectSameMatches(t *testing.T, text string, texts []string) (isFast bool) {
	t.Helper()
	found, err := newExpression(plugintypes.OperatorOptions{Arguments: text, Memoizer: unremembered{}})
	if err != nil {
		t.Fatal(err)
	}
	e := found.(*expression)
	for _, text := range texts {
		if want := e.slow().MatchString(text); e.Evaluate(nil, text) != want {
			t.Errorf("%.100s: %q: want %t", e.slow(), text, want)
		}
	}
	return e.fast != nil
}

type unremembered struct{}

func (unremembered) Do(_ string, read func() (any, error)) (any, error) { return read() }
func (unremembered) Release(uint64)                                     {}

// TestIsPlain: a request is plain only if all that rules for plain requests do not look at is plain.
func TestIsPlain(t *testing.T) {
	for want, requests := range map[bool][]Request{
		true: {
			{URI: "/a/b.js?q=red+shoes&page=2;a"}, {URI: "/", Headers: []Header{{"cookie", "a=1; b=GA1.2"}, {"referer", "<a>"}}},
		},
		false: {
			{URI: "/%61"}, {URI: "/?q='"}, {URI: "/é"}, {URI: "/", Body: []byte("a")}, {URI: "/", Headers: []Header{{"cookie", "a=<"}}},
			{URI: "/", Headers: []Header{{"Cookie", "a=<"}}}, {URI: "/", Headers: []Header{{"cookie", "a=1"}, {"cookie", "b=("}}},
		},
	} {
		for _, r := range requests {
			if r.isPlain() != want {
				t.Errorf("%+v: want %t", r, want)
			}
		}
	}
}
