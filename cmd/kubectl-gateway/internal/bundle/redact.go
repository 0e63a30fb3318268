package bundle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// redacted is in place of what may be secret.
const redacted = "REDACTED"

var (
	// secretName is in names of headers, parameters, variables and annotations whose values may be secret.
	secretName = regexp.MustCompile(`(?i)auth|cookie|passw|secret|token|key|credential|session|private|signature`)
	// configuration ends names of annotations with files, which may have any secrets.
	configuration = regexp.MustCompile(`(last-applied-configuration|snippet)$`)
	// secretTexts are in any text: private keys, tokens, and passwords in URLs.
	secretTexts = []*regexp.Regexp{
		regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|$)`),
		regexp.MustCompile(`\beyJ[\w-]+\.[\w-]*(\.[\w-]*)*`),
		regexp.MustCompile(`(?i)\b(Bearer|Basic|Digest|Negotiate) [\w~+/.=-]{8,}`),
		regexp.MustCompile(`://[^/\s@:"]*:[^/\s@"]+@`),
	}
	// secretLines are in logs: what follows such a name.
	secretLines = []*regexp.Regexp{
		regexp.MustCompile(`(?i)((?:authorization|cookie)"?\s*[:=]\s*).*`),
		regexp.MustCompile(`(?i)([\w-]*(?:passw|secret|token|api[-_]?key|credential)[\w-]*"?\s*[:=]\s*)("[^"]*"|[^\s",;&}]+)`),
		regexp.MustCompile(`(?i)([?&][^=&\s]*(?:auth|code|key|session|sig|state)[^=&\s]*=)[^\s"&]+`),
	}
)

// publicKeys are the keys of ConfigMaps that have no secrets.
var publicKeys = []string{"ca.crt", "ca.crl", "rules.conf"}

// minRemembered is the length of a value that is looked for in all texts: a shorter one is in many.
const minRemembered = 6

// redactor takes what may be secret out of what comes from the cluster. It may be used by several goroutines.
type redactor struct {
	mu sync.Mutex
	// values were secret in objects: HAProxy's files and logs may have them, too, as the expressions find them.
	values map[string]*regexp.Regexp
}

// wrap returns a transport that reads no Secret, and answers with objects without secrets: no code that makes the
// bundle ever sees one.
func (r *redactor) wrap(next http.RoundTripper) http.RoundTripper {
	return transport(func(request *http.Request) (*http.Response, error) {
		if slices.Contains(strings.Split(request.URL.Path, "/"), "secrets") {
			return nil, errors.New("a bundle reads no Secrets")
		}
		if strings.Contains(request.Header.Get("Accept"), "protobuf") {
			request = request.Clone(request.Context())
			request.Header.Set("Accept", "application/json")
		}
		response, err := next.RoundTrip(request)
		if err != nil {
			return nil, err
		}
		switch kind := response.Header.Get("Content-Type"); {
		case strings.HasPrefix(kind, "application/json"):
		case strings.HasPrefix(kind, "application/"):
			return nil, errors.Join(fmt.Errorf("%s is %s, and not JSON", request.URL.Path, kind), response.Body.Close())
		default: // a log, or a forwarded port
			return response, nil
		}
		content, err := io.ReadAll(response.Body)
		if err = errors.Join(err, response.Body.Close()); err == nil {
			content, err = r.object(content, strings.Contains(request.URL.Path, "/configmaps"))
		}
		if err != nil {
			return nil, fmt.Errorf("failed to read %s: %w", request.URL.Path, err)
		}
		response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(content)), int64(len(content))
		response.Header.Del("Content-Length")
		return response, nil
	})
}

type transport func(*http.Request) (*http.Response, error)

// RoundTrip is the one of a http.RoundTripper.
func (t transport) RoundTrip(request *http.Request) (*http.Response, error) { return t(request) }

// object returns JSON without secrets, of ConfigMaps or other objects.
func (r *redactor) object(content []byte, areConfigMaps bool) ([]byte, error) {
	var value any
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	r.walk(value, "", areConfigMaps)
	return json.Marshal(value)
}

// walk changes a value, which has a name in its parent.
func (r *redactor) walk(value any, name string, areConfigMaps bool) {
	switch value := value.(type) {
	case []any:
		for _, element := range value {
			r.walk(element, name, areConfigMaps)
		}
	case map[string]any:
		if called, ok := value["name"].(string); ok && secretName.MatchString(called) {
			r.hide(value, "value")
		}
		if name == "metadata" {
			delete(value, "managedFields")
		}
		for key, child := range value {
			switch {
			case name == "annotations" && (secretName.MatchString(key) || configuration.MatchString(key)),
				areConfigMaps && (name == "data" || name == "binaryData") && !slices.Contains(publicKeys, key):
				r.hide(value, key)
			}
			r.walk(child, key, areConfigMaps)
		}
	}
}

// hide takes a text out of an object, and remembers it.
func (r *redactor) hide(object map[string]any, key string) {
	text, ok := object[key].(string)
	if !ok || text == "" {
		return
	}
	object[key] = redacted
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.values == nil {
		r.values = map[string]*regexp.Regexp{}
	}
	if r.values[text] == nil && len(strings.TrimSpace(text)) >= minRemembered {
		r.values[text] = spellings(text)
	}
}

// spaces are where YAML may break a line.
var spaces = regexp.MustCompile(`\s+`)

// spellings returns an expression for a text as it is in files: as it is, in JSON, and in YAML.
func spellings(text string) *regexp.Regexp {
	all := []string{text, strings.ReplaceAll(text, "'", "''")}
	for _, escapesHTML := range []bool{true, false} {
		var encoded bytes.Buffer
		encoder := json.NewEncoder(&encoded)
		encoder.SetEscapeHTML(escapesHTML)
		if encoder.Encode(text) == nil {
			all = append(all, strings.TrimSuffix(encoded.String()[1:], "\"\n"))
		}
	}
	for i := range all {
		all[i] = spaces.ReplaceAllLiteralString(regexp.QuoteMeta(all[i]), `\s+`)
	}
	return regexp.MustCompile(strings.Join(all, "|"))
}

// text returns a text without secrets that are known, or look like ones.
func (r *redactor) text(content []byte) []byte {
	for _, expression := range secretTexts {
		content = expression.ReplaceAll(content, []byte(redacted))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, expression := range r.values {
		content = expression.ReplaceAllLiteral(content, []byte(redacted))
	}
	return content
}

// log returns a line of a log, behind a time, without secrets: of the access log, without the headers that the Gateway
// has it log.
func (r *redactor) log(line []byte) []byte {
	stamp, rest, _ := bytes.Cut(line, []byte(" "))
	var object map[string]any
	if !bytes.HasPrefix(rest, []byte("{")) || json.Unmarshal(rest, &object) != nil {
		return r.line(line)
	}
	for key, value := range object {
		if text, ok := value.(string); ok {
			object[key] = string(r.line([]byte(text)))
		}
	}
	if headers, ok := object["requestHeaders"].(map[string]any); ok {
		for name := range headers {
			headers[name] = redacted
		}
	}
	content, err := json.Marshal(object)
	if err != nil {
		return nil // which cannot be: it was JSON
	}
	return r.text(bytes.Join([][]byte{stamp, content}, []byte(" ")))
}

// line returns a text of a log without secrets.
func (r *redactor) line(text []byte) []byte {
	text = r.text(text)
	for _, expression := range secretLines {
		text = expression.ReplaceAll(text, []byte("${1}"+redacted))
	}
	return text
}
