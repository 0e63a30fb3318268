package render

import (
	"gateway/internal/haproxy/feature"
	"gateway/internal/haproxy/ir"
)

// addMirrors adds what copies of requests need, if any rule asks for them: the program that sends them, and the section
// that leads them to their backends. Both have headers of their own, so that they stay when the last such rule goes: a
// change of other sections would take a reload.
//
// Rules of the backends bound the time for an answer, as they do for requests: see package feature. The answer is read
// as far as it fits HAProxy's buffer, so that it is not cut off. The program gets an empty one in its place.
//
// The program can do nothing but what its two libraries let it, and has so much memory. Each thread has its own state
// of it.
func (r *renderer) addMirrors() {
	paths := r.in.Paths
	if !feature.HasMirrors(r.in.Table) {
		return
	}
	r.config.Files[ir.MirrorFile] = feature.MirrorProgram
	r.section("global # copies of requests",
		"tune.lua.bool-sample-conversion normal",
		"tune.lua.openlibs string,table",
		"tune.lua.maxmem 128",
		"tune.lua.log.loggers off",
		"lua-load-per-thread "+paths.Map(ir.MirrorFile)+" "+paths.MirrorSocket(),
	)
	r.section("listen mirrors from common",
		"bind "+paths.MirrorSocket()+" mode 600",
		"option httpclose",
		"http-request set-var(txn.backend) req.fhdr("+feature.MirrorHeader+",1)",
		"http-request del-header "+feature.MirrorHeader,
		"http-request del-header expect",
		"http-request set-var(txn.filters) str(timeout=10000&once=1)",
		"http-response wait-for-body time 10s",
		"http-response return status 204",
		"use_backend %[var(txn.backend)]",
	)
}
