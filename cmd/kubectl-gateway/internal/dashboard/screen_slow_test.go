//go:build slow

package dashboard

import (
	"context"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gateway/internal/must"
)

var update = flag.Bool("update", false, "take the picture of the documentation")

// chromium runs Chromium without a window on a page, and returns what it prints.
func chromium(t *testing.T, url string, arguments ...string) string {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatalf("Chromium is needed (Debian's package chromium): %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	arguments = append(arguments, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--user-data-dir="+t.TempDir(), url)
	command := exec.CommandContext(ctx, program, arguments...) //nolint:gosec // Chromium
	var problems strings.Builder
	command.Stderr = &problems
	out, err := command.Output()
	if err != nil {
		t.Fatalf("Chromium fails: %v\n%s", err, problems.String())
	}
	// With --enable-logging=stderr, the page's log is there, such as a breach of its Content-Security-Policy.
	for line := range strings.Lines(problems.String()) {
		if strings.Contains(line, "CONSOLE") {
			t.Errorf("the page logs: %s", line)
		}
	}
	return string(out)
}

// newSampleBoard serves the sample, with a history, and goes on in it each time the page renews itself.
func newSampleBoard(t *testing.T) *httptest.Server {
	t.Helper()
	looks := 0
	next := func(context.Context) (*snapshot, error) {
		looks++
		return sample(time.Duration(looks) * 5 * time.Second), nil
	}
	board := newBoard(next, "https://api.example.com:6443, all namespaces")
	for range 60 {
		seen, _ := next(t.Context())
		board.add(seen)
	}
	server := serve(t, board)
	page := server.Config.Handler
	server.Config.Handler = http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		board.mu.Lock()
		board.asked = time.Now()
		if request.URL.Path == "/board" {
			board.asked = time.Time{} // Chromium's clock is ahead
		}
		board.mu.Unlock()
		page.ServeHTTP(writer, request)
	})
	return server
}

// TestPageInBrowser: Chromium shows the page, and the page renews itself, against no rule of its policy.
func TestPageInBrowser(t *testing.T) {
	for milliseconds, time := range map[string]string{"1000": "09:05:00", "7000": "09:05:05", "12000": "09:05:10"} {
		page := chromium(t, newSampleBoard(t).URL, "--enable-logging=stderr", "--dump-dom", "--virtual-time-budget="+milliseconds)
		for _, want := range []string{`id="state" role="status" class="live">` + time + "<", "no space left on device", "<polyline points="} {
			if !strings.Contains(page, want) {
				t.Errorf("after %s ms the page has no %s:\n%s", milliseconds, want, page)
			}
		}
	}
}

// TestPicture takes the picture for the documentation with -update, and looks that there is a small one in any case.
func TestPicture(t *testing.T) {
	const picture = "../../../../docs/images/dashboard.png"
	if *update {
		path := must.Get(filepath.Abs(picture))(t)
		chromium(t, newSampleBoard(t).URL, "--screenshot="+path, "--window-size=1200,1060", "--hide-scrollbars", "--virtual-time-budget=1000")
	}
	info, err := os.Stat(picture)
	if err != nil || info.Size() > 150_000 {
		t.Fatalf("the picture has %d bytes, 150,000 are allowed (%v)", info.Size(), err)
	}
}
