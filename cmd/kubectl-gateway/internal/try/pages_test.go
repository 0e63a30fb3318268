package try_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"gateway/cmd/kubectl-gateway/internal/clitest"
	"gateway/cmd/kubectl-gateway/internal/try"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/must"
)

// block is YAML of a page, with the requests of the tables below it.
type block struct {
	page, file, content string
	requests            []shownRequest
}

// shownRequest is a row of a table of a page: arguments of curl, and what the answer has.
type shownRequest struct{ curl, answer string }

var (
	partOfPage = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$|^\\| Request \\| Answer \\|\n\\|[-|]+\\|\n((?:\\|[^\n]*\n?)+)")
	rowOfTable = regexp.MustCompile("(?m)^\\| `curl ([^`]+)` \\| (.*) \\|$")
	kindInYAML = regexp.MustCompile(`(?m)^apiVersion: (?:app\.example\.com|gateway\.networking\.k8s\.io)/v1\nkind: Gateway$`)
	ours       = regexp.MustCompile(`(?m)^apiVersion: (?:app\.example\.com|gateway\.networking\.(?:x-)?k8s\.io|v1|discovery\.k8s\.io)`)
	api        = regexp.MustCompile(`(?m)^apiVersion: (?:app\.example\.com|gateway\.networking\.)`)
)

// TestPages pastes each block of YAML of the pages for users into a file. render --check accepts it without a warning,
// and try answers the requests of the page as it shows. A block without a Gateway is pasted below the one before it.
func TestPages(t *testing.T) {
	try.TakePorts(func() int32 { return haproxytest.FreePort(t) })
	var all, pages, first int
	var working, answered atomic.Int32
	t.Cleanup(func() {
		t.Logf("%d of %d blocks work as pasted, %d of %d pages of features have a route of the Gateway API first, %d requests", working.Load(), all, first, pages, answered.Load())
	})
	for _, page := range userPages(t) {
		blocks := blocksOf(t, page)
		if filepath.Base(filepath.Dir(page)) == "features" && filepath.Base(page) != "README.md" {
			pages++
			if len(blocks) > 0 && regexp.MustCompile(`(?m)^kind: (HTTP|GRPC|TLS|TCP)Route$`).MatchString(blocks[0].content) {
				first++
			} else {
				t.Errorf("%s: the first block has no route of the Gateway API", page)
			}
		}
		for i, b := range blocks {
			all++
			t.Run(fmt.Sprintf("%s %d", filepath.Base(page), i), func(t *testing.T) {
				t.Parallel()
				result := clitest.Run(t, "", "render", "-f", b.file, "--check")
				if result.Code != 0 {
					t.Fatalf("exit code %d:\n%s%s\nof\n%s", result.Code, result.Out, result.Err, b.content)
				}
				working.Add(1)
				answered.Add(int32(b.send(t))) //nolint:gosec // there are few
			})
		}
	}
	if all < 60 || pages < 50 {
		t.Errorf("found only %d blocks, and %d pages of features", all, pages)
	}
}

// userPages are the paths of the pages for users.
func userPages(t *testing.T) []string {
	t.Helper()
	all := []string{filepath.Join(clitest.Root, "README.md"), filepath.Join(clitest.Root, "README.zh-CN.md")}
	must.Do(t, filepath.WalkDir(filepath.Join(clitest.Root, "docs"), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && entry.Name() == "maintainers" {
			return fs.SkipDir
		}
		if filepath.Ext(path) == ".md" {
			all = append(all, path)
		}
		return err
	}))
	return all
}

// blocksOf returns the blocks of a page with objects that the plugin reads.
func blocksOf(t *testing.T, page string) []*block {
	t.Helper()
	text, err := os.ReadFile(page) //nolint:gosec // of the project
	if err != nil {
		t.Fatal(err)
	}
	var all []*block
	whole := ""
	for _, part := range partOfPage.FindAllStringSubmatch(string(text), -1) {
		switch content := part[1]; {
		case part[2] != "" && len(all) > 0:
			for _, row := range rowOfTable.FindAllStringSubmatch(part[2], -1) {
				last := all[len(all)-1]
				last.requests = append(last.requests, shownRequest{row[1], row[2]})
			}
			if shown := strings.Count(part[2], "\n"); strings.Count(part[2], "`curl ") != shown || len(all[len(all)-1].requests) < shown {
				t.Errorf("%s: not each row shows a request of curl:\n%s", page, part[2])
			}
		case strings.Contains(content, "apiVersion: ") && (!ours.MatchString(content) || whole == "" && !api.MatchString(content)): // of others
		default:
			if kindInYAML.MatchString(content) {
				whole = content
			} else if strings.Contains(content, "apiVersion: ") {
				content = whole + "---\n" + content
			}
			all = append(all, &block{page: page, file: clitest.WriteFile(t, "page.yaml", content), content: content})
		}
	}
	return all
}

// send sends the requests, and returns how many there are.
func (b *block) send(t *testing.T) int {
	t.Helper()
	if len(b.requests) == 0 {
		return 0
	}
	options := newOptions("default")
	tried := must.Get(try.Start(t.Context(), options, []string{b.file}, ""))(t)
	defer tried.Stop()
	for _, request := range b.requests {
		got := request.send(t, tried.Ports)
		for _, want := range regexp.MustCompile("(no )?(from )?`([^`]+)`|^([1-5][0-9]{2})\\b").FindAllStringSubmatch(request.answer, -1) {
			text := want[3]
			switch {
			case want[4] != "":
				text = "HTTP/1.1 " + want[4]
			case want[2] != "":
				text = "/" + text + ":"
			}
			if strings.Contains(strings.ToLower(got), strings.ToLower(text)) == (want[1] != "") {
				t.Errorf("%s: curl %s: the page shows %s%q, but the answer is\n%s", b.page, request.curl, want[1], text, got)
			}
		}
	}
	return len(b.requests)
}

// send returns an answer, and the request as the built-in backend got it, or the text of an error.
func (r *shownRequest) send(t *testing.T, ports map[int32]int32) string {
	t.Helper()
	request, header := r.parse(t)
	transport := &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			_, text, _ := net.SplitHostPort(address)
			port, err := strconv.ParseInt(text, 10, 32)
			if err != nil {
				return nil, err
			}
			connection, err := new(net.Dialer).DialContext(ctx, network, fmt.Sprintf("127.0.0.1:%d", ports[int32(port)]))
			if err == nil {
				_, err = connection.Write([]byte(header))
			}
			return connection, err
		},
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true, ServerName: request.URL.Hostname()}, //nolint:gosec // it is this machine's
		DisableKeepAlives: true, DisableCompression: true,
	}
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close() //nolint:errcheck // it has been read
	text := must.Get(httputil.DumpResponse(answer, true))(t)
	return string(text)
}

// parse reads arguments of curl, as a shell passes them. It returns the PROXY header that comes before the request,
// too.
func (r *shownRequest) parse(t *testing.T) (request *http.Request, proxyHeader string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	words := regexp.MustCompile(`'[^']*'|\S+`).FindAllString(r.curl, -1)
	for i := 0; i < len(words); i++ {
		option, value := strings.Trim(words[i], "'"), ""
		if option == "-X" || option == "-H" || option == "-u" {
			i++
			value = strings.Trim(words[i], "'")
		}
		switch option {
		case "-k": // no certificate is verified
		case "-X":
			request.Method = value
		case "-H":
			name, content, _ := strings.Cut(value, ": ")
			request.Header.Add(name, content)
		case "-u":
			name, password, _ := strings.Cut(value, ":")
			request.SetBasicAuth(name, password)
		case "--haproxy-protocol":
			proxyHeader = "PROXY TCP4 192.0.2.1 192.0.2.2 1234 80\r\n"
		default:
			if request.URL, err = url.Parse(option); err != nil || request.URL.Host == "" {
				t.Fatalf("curl %s: %v", r.curl, err)
			}
			request.Host = request.URL.Host
		}
	}
	return request, proxyHeader
}
