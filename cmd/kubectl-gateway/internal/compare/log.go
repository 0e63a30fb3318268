package compare

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"gateway/cmd/kubectl-gateway/internal/logs"
)

// request is a request to send to both addresses.
type request struct {
	method string
	url    *url.URL
}

func (r request) String() string { return r.method + " " + r.url.String() }

// reading says how to read a log, and counts what is not sent.
type reading struct {
	// scheme and host are of requests whose lines do not have them.
	scheme, host string
	methods      []string

	// repeated requests are sent once, and those with other methods not at all. unknown are lines that are none of a
	// request, and firstUnknown is the first of them.
	repeated, otherMethods, unknown int
	firstUnknown                    string
}

// maxLine is the length of the longest line: requests of 64 KiB, with what a log has beside.
const maxLine = 256 << 10

// read returns the requests of a log, in its order.
func (r *reading) read(log io.Reader) ([]request, error) {
	var all []request
	seen := map[string]bool{}
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" {
			continue
		}
		found, err := r.parse(line)
		switch {
		case err != nil:
			if r.unknown == 0 {
				r.firstUnknown = fmt.Sprintf("%.120q: %v", line, err)
			}
			r.unknown++
		case !slices.Contains(r.methods, found.method):
			r.otherMethods++
		case seen[found.String()]:
			r.repeated++
		default:
			seen[found.String()] = true
			all = append(all, found)
		}
	}
	return all, lines.Err()
}

// combined is a line of nginx's format "combined", and of those that begin like it, as the one of ingress-nginx.
var combined = regexp.MustCompile(`^\S+ \S+ .*?\[[^]]*\] "([A-Z]+) (\S+) HTTP/[0-9.]+" [0-9]{3} `)

// parse reads a line: a URL, or what a log has.
func (r *reading) parse(line string) (request, error) {
	if strings.HasPrefix(line, "http://") || strings.HasPrefix(line, "https://") {
		return newRequest(http.MethodGet, line)
	}
	if access, ok := logs.ParseAccess(line); ok {
		if access.Host == "" || access.Host == "-" || !strings.HasPrefix(access.Path, "/") {
			return request{}, fmt.Errorf("it has no host or path")
		}
		return newRequest(access.Method, r.scheme+"://"+access.Host+access.Path)
	}
	match := combined.FindStringSubmatch(line)
	switch {
	case match == nil:
		return request{}, fmt.Errorf("it is neither a URL nor a line of a known access log")
	case r.host == "":
		return request{}, fmt.Errorf("it does not have the host: name it with --host")
	case !strings.HasPrefix(match[2], "/"):
		return request{}, fmt.Errorf("it has no path")
	}
	return newRequest(match[1], r.scheme+"://"+r.host+match[2])
}

func newRequest(method, text string) (request, error) {
	parsed, err := url.Parse(text)
	if err != nil {
		return request{}, err
	}
	if parsed.Hostname() == "" {
		return request{}, fmt.Errorf("it has no host")
	}
	parsed.Fragment = ""
	return request{method, parsed}, nil
}
