package filters

import (
	_ "embed" // for mirrorProgram
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gateway/internal/haproxy/ir"
	"gateway/internal/routing"
)

// mirrorProgram sends copies of requests. It contains no user input.
//
//go:embed mirror.lua
var mirrorProgram []byte

// mirrorHeader is the header that leads a copy to its backend. The first header of that name counts, which the program
// sets.
const mirrorHeader = "x-mirror-to"

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
	isUsed:  func(rule *routing.Rule) bool { return len(rule.Mirrors) > 0 },
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
		const copied = " if { var(txn.mirrors) -m found }"
		return Rules{Request: slices.Concat([]string{
			"http-request set-var(txn.draw) rand(" + strconv.Itoa(draws) + ") if " + has("mirror"),
			"http-request set-var(txn.most) " + param("mirror") + ",add(0) if " + has("mirror"),
			"http-request set-var(txn.mirrors) " + text("mirrors") + " if " + has("mirror") + " { var(txn.draw),sub(txn.most) lt 0 }" +
				" !{ req.fhdr_cnt(upgrade) gt 0 } !{ req.fhdr_cnt(transfer-encoding) gt 0 } !{ req.hdr_val(content-length) gt " + strconv.Itoa(longestCopy) + " }",
			"http-request unset-var(txn.mirrors) if { req.ver 2.0 3.0 } !{ method GET HEAD OPTIONS DELETE } !{ req.fhdr_cnt(content-length) gt 0 }",
			"http-request wait-for-body time 10s" + copied,
		}, teamLines(env, copied[len(" if "):]), []string{"http-request lua.mirror" + copied})}
	},
	add: func(env Env, config *ir.Config) {
		addExchange(env, config)
		addProgram(env, config, "copies of requests", ir.MirrorFile, mirrorProgram, fmt.Sprintf(" %s %d", env.Paths.MirrorSocket(), env.Table.Shares.Copies), mirrorSection(env.Paths))
	},
	describe: func(rule *routing.Rule) []string {
		var all []string
		for _, m := range rule.Mirrors {
			percent := 100 * float64(m.Numerator) / float64(max(1, m.Denominator))
			all = append(all, fmt.Sprintf("copies: %.4g%% of the requests, to Service %s", percent, m.Backend))
		}
		return all
	},
}

// mirrorSection leads copies to their backends. An answer is read as far as it fits HAProxy's buffer, so that it is not
// cut off. The program gets an empty one in its place.
func mirrorSection(paths ir.Paths) ir.Section {
	return spare(ir.ReloadSettings, "listen mirrors from common",
		"bind "+paths.MirrorSocket()+" mode 600",
		"http-request set-var(txn.backend) req.fhdr("+mirrorHeader+",1)",
		"http-request del-header "+mirrorHeader,
		"http-request del-header expect",
		"http-request set-var(txn.filters) str(timeout=10000&once=1)",
		"http-response wait-for-body time 10s",
		"http-response return status 204",
		"use_backend %[var(txn.backend)]",
	)
}
