package filters

import (
	"fmt"
	"strconv"
	"time"

	"gateway/internal/routing"
)

// longest stands for no timeout, or a longer one: HAProxy keeps milliseconds in 32 bits, and accepts longer ones that
// it does not keep.
const longest = 24 * 24 * time.Hour

// IsOver returns the condition that the timeout of a request's rule is over when this time has passed.
func IsOver(passed time.Duration) string {
	return fmt.Sprintf("{ %s,add(0) -m int 1:%d }", param("timeout"), passed.Milliseconds())
}

// timeout limits an attempt. The parameter "timeout" is in milliseconds. "once" means that a request is not retried
// once an endpoint has taken it.
//
// While a client has not ended its request, as in gRPC both ways, HAProxy waits for it as long as for any client, and
// not as long as for the backend. That is only right after the answer has begun: before, nothing else bounds how long a
// client may take to send a request.
var timeout = filter{
	encode: func(in Input, p *params) {
		if limit := in.Rule.Timeout; limit != 0 {
			if limit < 0 || limit > longest {
				limit = longest
			}
			p.set("timeout", strconv.FormatInt(max(1, limit.Milliseconds()), 10))
		}
		if in.Rule.Once {
			p.set("once", "1")
		}
	},
	rules: func(Env) Rules {
		return Rules{
			Response: []string{"http-response set-timeout client " + param("timeout") + ",add(0) if { " + param("timeout") + ",add(0) -m int gt 60000 }"},
			Backend: []string{
				"http-request disable-l7-retry if !{ method GET HEAD PUT DELETE OPTIONS } or " + has("once"),
				"http-request set-timeout server " + param("timeout") + ",add(0) if " + has("timeout"),
			},
		}
	},
	describe: func(rule *routing.Rule) []string {
		switch {
		case rule.Timeout > 0:
			return []string{fmt.Sprintf("timeout: %s until the answer begins", rule.Timeout)}
		case rule.Timeout < 0:
			return []string{"timeout: none"}
		}
		return nil
	},
}
