package render_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/render"
	"gateway/internal/model"
	"gateway/internal/routing"
)

// TestNamesShareLines: HAProxy reads each line, however many names there are and however long they are, and one more
// name changes one line.
func TestNamesShareLines(t *testing.T) {
	for _, length := range []int{20, 240} {
		linesOf := func(n int) []ir.CertificateLine {
			names := make([]string, n)
			for i := range names {
				names[i] = fmt.Sprintf("%05d", i) + strings.Repeat(".a", (length-10)/2) + ".test"
			}
			table := routing.Table{Listeners: []routing.Listener{{Name: "any", Port: 443, Protocol: "HTTPS", TLS: &model.ListenerTLS{MinVersion: "TLSv1.2"}}}}
			in := render.Input{Table: table, Certificates: map[string][]render.Certificate{"any": {{Secret: "one", Names: names}}}}
			return render.Render(in).Certificates["certificates-443.list"].All()
		}
		before := map[string]bool{}
		for _, line := range linesOf(3000) {
			before[line.String()] = true
			if text := line.String(); len(text) > 48<<10 || len(strings.Fields(text)) > 1500 {
				t.Errorf("with names of %d bytes, a line has %d bytes and %d words", length, len(text), len(strings.Fields(text)))
			}
		}
		changed := slices.DeleteFunc(linesOf(3001), func(line ir.CertificateLine) bool { return before[line.String()] })
		if len(changed) != 1 || len(before) > 100 {
			t.Errorf("with names of %d bytes, one more changes %d lines of %d", length, len(changed), len(before))
		}
	}
}
