package ingress

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"gateway/internal/testtier"
)

// TestOverDecoded: what nginx matches decoded, the expression matches as paths are here.
func TestOverDecoded(t *testing.T) {
	t.Parallel()
	random := testtier.Rand(t)
	pick := func(parts []string, most int) string {
		text := ""
		for range 1 + random.IntN(most) {
			text += parts[random.IntN(len(parts))]
		}
		return text
	}
	for range 1000 {
		text := pick([]string{"a", "%", ".", "[^2]", "[^%]", ".?", ".{2}", "[^/]+", ".*", "(.|b)", `\xe9`, `[\x00-\x1f]`, "(?:.a){1,2}", ".{2,}", "(.)"}, 5)
		over, ok := overDecoded(text)
		if !ok {
			continue
		}
		nginx, here := regexp.MustCompile(`\A(?:`+text+`)\z`), regexp.MustCompile(`\A(?:`+over+`)\z`)
		for range 50 {
			decoded := pick([]string{"a", "%", "\u00e9", "\x01", "b", "2"}, 6) // one rune for each byte
			path := ""
			for _, r := range decoded {
				if isEncodable(r) {
					path += fmt.Sprintf("%%%02X", r)
				} else {
					path += string(r)
				}
			}
			if nginx.MatchString(decoded) && !here.MatchString(path) {
				t.Fatalf("%s matches %q, and %s does not match %q", text, decoded, over, path)
			}
		}
	}
}

// TestGuardsOfDecodedPaths: a guard holds for what nginx matches with one sign, where a path here has three.
func TestGuardsOfDecodedPaths(t *testing.T) {
	t.Parallel()
	const note = "annotation whitelist-source-range: " + rangesPath
	for path, test := range map[string]struct{ want, note string }{
		"/docs/.$":          {`(?-ms:(?i:/DOCS/)(?:.|%25|%[01][0-9A-F]|%7F|%[89A-F][0-9A-F])$) Service a`, ""},
		"/docs/.*":          {"(?i)/docs/.*", ""},
		"/docs/100%":        {"", ""},
		"/docs/[^/]+/x":     {"(?i)/docs/[^/]+/x.*", ""},
		"/docs/[^0-9]+/x":   {"(?i)/docs/.* 503", note},
		"/docs/[a-z]+/x":    {"(?i)/docs/[a-z]+/x.*", ""},
		"/docs/(.x){40}/y$": {"(?i)/docs/.* 503", note},
	} {
		text := fmt.Sprintf(ingressWithPath, "a", Prefix+"use-regex: 'true', "+Prefix+"whitelist-source-range: 10.0.0.0/8", path, "ImplementationSpecific")
		result := convertText(t, text)
		got, notes := strings.Join(limits(result), "\n"), fmt.Sprint(result.Notes)
		if !strings.HasPrefix(got, test.want) || (test.note != "") != strings.Contains(notes, note) {
			t.Errorf("%s: got\n%s\n%s", path, got, notes)
		}
		for _, problem := range result.Notes {
			if strings.Contains(problem.Text, "answered with 500") {
				t.Errorf("%s: %s", path, problem.Text)
			}
		}
	}
}
