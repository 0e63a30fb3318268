package agent

import (
	"os"
	"path/filepath"
	"testing"

	"gateway/internal/haproxy/ir"
	"gateway/internal/proxyconfig"
)

// An agent that is killed during a reload does not note what HAProxy has loaded. The next one keeps the certificates
// all the same.
func TestAnAgentKilledDuringAReloadKeepsCertificates(t *testing.T) {
	t.Parallel()
	for name, kill := range map[string]func(r *tlsRig){
		"after it": func(r *tlsRig) {
			r.must(os.Remove(filepath.Join(r.options.Paths.ConfigDir, provenName)))
			if _, proven, err := r.agent.store.open(); proven || err != nil {
				t.Fatalf("proven %t: %v", proven, err)
			}
		},
		"before it": (*tlsRig).pointToWhatIsNotLoaded,
		"before it, and what HAProxy started on is not on the disk any more": func(r *tlsRig) {
			started := r.process().LoadID
			r.startAgent()
			spec := r.gateway().Spec
			spec.Routes[0].Rules[0].Matches[0].Path.Value = "/moved"
			r.expectReport(r.edit(spec), "")
			r.stop()
			if _, err := os.Stat(r.agent.store.dir(started)); err == nil {
				t.Fatalf("%s is there", started)
			}
			r.pointToWhatIsNotLoaded()
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTLSRig(t, "shop")
			r.put("shop", r.authority.Issue(t, []string{"shop.example.com"}))
			r.start(r.tlsSpec(r.https("https", "shop.example.com", "shop")))
			r.expectProblems()
			r.stop()
			kill(r)
			stop := r.keepsShowing("shop.example.com")
			r.startAgent()
			r.expectProxyConfig("the next agent has it loaded", func(c proxyconfig.Config) bool { return c.Live.Generation() == r.gateway().Generation })
			stop()
		})
	}
}

// pointToWhatIsNotLoaded leaves the disk as an agent does that is killed before HAProxy hears of a reload.
func (r *tlsRig) pointToWhatIsNotLoaded() {
	r.t.Helper()
	id := r.agent.store.nextID()
	r.must(r.agent.store.write(id, sources(ir.ConfigFile, ""), nil, true, false))
	r.must(r.agent.store.point(id))
}

// HAProxy uses a certificate that is renewed while no agent runs.
func TestARenewalNeedsNoAgent(t *testing.T) {
	t.Parallel()
	r := newTLSRig(t, "shop")
	names := []string{"shop.example.com"}
	r.put("shop", r.authority.Issue(t, names))
	r.start(r.tlsSpec(r.https("https", "shop.example.com", "shop")))
	r.stop()
	running, renewed := r.process(), r.authority.Issue(t, names)
	r.put("shop", renewed)
	r.expectShown("shop.example.com", renewed)
	r.expectNoReload(running)
}
