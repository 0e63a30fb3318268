//go:build slow

package oidc

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"gateway/test/internal/testenv"
)

const (
	// form is what a user does at the provider.
	form = `<script>
username.value = "test-user@localhost"
password.value = "verysecure"
document.forms[0].submit()
</script>`
	// visit is what a user does with the site: two tabs with links, then a logout. It tells the backend what was seen.
	visit = `<!DOCTYPE html><script>
const status = async () => (await fetch("/orders")).status
const tab = (from, to) => new Promise(done => {
	const opened = open(from)
	const look = () => {
		try {
			if (opened.location.href === location.origin + to && opened.document.readyState === "complete") {
				opened.close()
				return done(opened.document.cookie)
			}
		} catch {} // it is at the provider
		setTimeout(look, 10)
	}
	look()
})
const go = async () => {
	const seen = [await status()]
	const links = ["/orders?id=1", "/orders?id=2"]
	seen.push(await Promise.all(links.map(link => tab(link, link))), await status())
	seen.push(await tab("/oauth2/logout", "/open"), await status(), document.cookie)
	fetch("/open?seen=" + encodeURIComponent(JSON.stringify(seen)))
}
if (!opener && location.pathname === "/open") go()
</script>`
)

// TestChromium: a real browser logs in at a provider with a page of its own, in two tabs at once, and logs out there.
func TestChromium(t *testing.T) {
	s := startLoginSite(t, "hack/zitadel", []string{"-logged-out=" + site443 + "/open"},
		"name: logins", "name: chromium", "requiredClaims: [{claim: groups, values: [authors, admins]}], ", "")
	s.idp.form, s.page = form, visit
	browser := testenv.Start(t, nil, "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-popup-blocking",
		"--ignore-certificate-errors", "--user-data-dir="+t.TempDir(), "--host-resolver-rules=MAP "+host+":443 127.0.0.1:"+itoa(s.port),
		"--remote-debugging-port=0", site443+"/open")
	links := map[string]bool{}
	for deadline := time.After(2 * time.Minute); ; {
		select {
		case got := <-s.app:
			if seen := got.URL.Query().Get("seen"); seen != "" {
				if want := `[401,["",""],200,"",401,""]`; seen != want || !links["/orders?id=1"] || !links["/orders?id=2"] {
					t.Errorf("the browser saw %s instead of %s, and the backend %v", seen, want, links)
				}
				if s.idp.logouts.Load() != 1 {
					t.Error("the browser did not log out at the provider")
				}
				return
			}
			if strings.HasPrefix(got.RequestURI, "/orders?") {
				links[got.RequestURI] = true
				if got.Header.Get("X-Email") != "test-user@zitadel.ch" {
					t.Errorf("%s has %v", got.RequestURI, got.Header[http.CanonicalHeaderKey("X-Email")])
				}
			}
		case <-deadline:
			t.Fatalf("the browser saw no end, and the backend %v; %v\n%s", links, browser.Running(), browser.Output())
		}
	}
}
