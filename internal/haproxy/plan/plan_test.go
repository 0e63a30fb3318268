package plan_test

import (
	"strconv"
	"testing"

	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/plan"
)

// TestDiffOfCertificates: a list of certificates changes at run time, but for the one that is shown for names of
// none.
func TestDiffOfCertificates(t *testing.T) {
	line := func(file string) ir.CertificateLine {
		return ir.CertificateLine{File: file, Options: "ssl-min-ver TLSv1.2"}
	}
	tls13 := ir.CertificateLine{File: "b", Options: "ssl-min-ver TLSv1.3"}
	for name, test := range map[string]struct {
		strict           bool
		running, desired []ir.CertificateLine
		want             string
	}{
		"one more":                             {false, []ir.CertificateLine{line("a")}, []ir.CertificateLine{line("a"), line("b")}, ""},
		"another first one":                    {false, []ir.CertificateLine{line("a"), line("b")}, []ir.CertificateLine{line("b")}, ir.ReloadCertificates},
		"the first one":                        {false, nil, []ir.CertificateLine{line("a")}, ir.ReloadCertificates},
		"another first one, and none is shown": {true, []ir.CertificateLine{line("a"), line("b")}, []ir.CertificateLine{line("b")}, ""},
		"one with other options":               {true, []ir.CertificateLine{line("a")}, []ir.CertificateLine{line("a"), tls13}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			config := func(lines []ir.CertificateLine) ir.Config {
				list := ir.NewCertificateList(nil, lines...)
				if !test.strict && len(lines) > 0 {
					list = ir.NewCertificateList(&lines[0], lines[1:]...)
				}
				return ir.Config{
					Sections:     []ir.Section{{Header: "global"}},
					Certificates: map[string]ir.CertificateList{"certificates-443.list": list},
				}
			}
			if got := plan.Diff(config(test.desired), config(test.running)).Reload; got != test.want {
				t.Errorf("Diff says %q for a reload, want %q", got, test.want)
			}
		})
	}
}

// TestUnusedAuthorities: CA certificates that nobody uses any more take a reload once they are many.
func TestUnusedAuthorities(t *testing.T) {
	config := func(first, last int, content []byte) ir.Config {
		of := ir.Config{Sections: []ir.Section{{Header: "global"}}, Authorities: map[string][]byte{}}
		for i := first; i < last; i++ {
			of.Authorities[strconv.Itoa(i)] = content
		}
		return of
	}
	small, large := []byte("a"), make([]byte, 1<<20)
	for name, test := range map[string]struct {
		running ir.Config
		want    string
	}{
		"some":       {config(0, 33, small), ""},
		"many":       {config(0, 34, small), ir.ReloadCertificates},
		"large ones": {config(0, 6, large), ir.ReloadCertificates},
	} {
		if got := plan.Diff(config(0, 1, small), test.running).Reload; got != test.want {
			t.Errorf("%s: Diff says %q for a reload, want %q", name, got, test.want)
		}
	}
	running, reloads := config(0, 1, small), 0
	for i := range 100 {
		next := plan.Diff(config(i, i+1, small), running)
		if running = next.After; next.Reload != "" {
			reloads++
			running = config(i, i+1, small)
		}
	}
	if reloads != 3 || len(running.Authorities) > 34 {
		t.Errorf("100 edits took %d reloads, and %d files are kept", reloads, len(running.Authorities))
	}
}

// TestDiffOfPorts: a port that is removed takes a reload, as HAProxy would go on listening there.
func TestDiffOfPorts(t *testing.T) {
	one := ir.Config{Sections: []ir.Section{{Header: "global"}, {Header: "frontend 80 from routing", Reason: ir.ReloadPorts}}}
	two := ir.Config{Sections: append(one.Sections[:2:2], ir.Section{Header: "frontend 81 from routing", Reason: ir.ReloadPorts})}
	for name, test := range map[string]struct {
		desired, running ir.Config
		want             string
	}{
		"one more": {two, one, ir.ReloadPorts}, "one less": {one, two, ir.ReloadPorts}, "the same": {two, two, ""},
	} {
		if got := plan.Diff(test.desired, test.running).Reload; got != test.want {
			t.Errorf("%s: Diff says %q for a reload, want %q", name, got, test.want)
		}
	}
}
