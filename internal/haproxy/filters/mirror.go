package filters

import (
	_ "embed" // for MirrorProgram
	"fmt"
	"strconv"
	"strings"

	"gateway/internal/routing"
)

// MirrorProgram sends copies of requests. It contains no user input.
//
//go:embed mirror.lua
var MirrorProgram []byte

// MirrorHeader is the header that leads a copy to its backend. The first header of that name counts, which the program
// sets.
const MirrorHeader = "x-mirror-to"

// draws is the number of random numbers, one of which decides what is copied.
const draws = 1 << 30

// longestCopy is the longest body of a request that is copied: HAProxy must hold it in its buffer.
const longestCopy = 15 << 10

// mirror copies requests. The parameter "mirror" is the largest share of a mirror, a number up to draws. "mirrors" is
// BACKEND:SHARE,... for all of them. One number is drawn for each request: a mirror gets a copy if it is below the
// share.
//
// The copy contains the body, so HAProxy has to wait for it. It would refuse a request that is too slow, so it waits
// only for bodies of known length, and not for streams. The program does not copy a request whose body did not arrive
// as a whole, nor a request for an upgrade.
var mirror = filter{
	mayStay: true,
	encode: func(in Input, p *params) {
		var mirrors []string
		largest := int64(0)
		for _, m := range in.Rule.Mirrors {
			share := int64(m.Numerator) * draws / int64(max(1, m.Denominator))
			if backend := in.BackendFor(m.Backend); backend != "" && share > 0 {
				mirrors = append(mirrors, fmt.Sprintf("%s:%d", backend, share))
				largest = max(largest, share)
			}
		}
		if len(mirrors) > 0 {
			p.set("mirror", strconv.FormatInt(largest, 10))
			p.set("mirrors", strings.Join(mirrors, ","))
		}
	},
	rules: func(env Env) Rules {
		if !HasMirrors(env.Table) {
			return Rules{}
		}
		const copied = " if { var(txn.mirrors) -m found }"
		return Rules{Request: []string{
			"http-request set-var(txn.draw) rand(" + strconv.Itoa(draws) + ") if " + has("mirror"),
			"http-request set-var(txn.most) " + param("mirror") + ",add(0) if " + has("mirror"),
			"http-request set-var(txn.mirrors) " + text("mirrors") + " if " + has("mirror") + " { var(txn.draw),sub(txn.most) lt 0 }" +
				" !{ req.fhdr_cnt(upgrade) gt 0 } !{ req.fhdr_cnt(transfer-encoding) gt 0 } !{ req.hdr_val(content-length) gt " + strconv.Itoa(longestCopy) + " }",
			"http-request unset-var(txn.mirrors) if { req.ver 2.0 } !{ method GET HEAD OPTIONS DELETE } !{ req.fhdr_cnt(content-length) gt 0 }",
			"http-request wait-for-body time 10s" + copied,
			"http-request lua.mirror" + copied,
		}}
	},
}

// HasMirrors reports whether any rule copies requests.
func HasMirrors(table routing.Table) bool {
	found := false
	table.Rules(func(_ *routing.Listener, rule *routing.Rule) { found = found || len(rule.Mirrors) > 0 })
	return found
}
