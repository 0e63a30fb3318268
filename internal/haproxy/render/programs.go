package render

import (
	"maps"
	"slices"

	"gateway/internal/haproxy/filters"
	"gateway/internal/haproxy/ir"
	"gateway/internal/routing"
)

// addPrograms adds the programs that rules need, and the sections for their requests.
//
// Rules of the backends limit the time for an answer, as they do for requests: see package filters.
//
// The programs can do nothing but what their libraries let them, and have so much memory. Each thread has its own
// state of them.
func (r *renderer) addPrograms() {
	hasMirrors, hasBasic, hasAuth := filters.HasMirrors(r.in.Table), filters.HasBasic(r.in.Table), filters.HasAuth(r.in.Table)
	hasBodies, hasJWT := filters.HasBodies(r.in.Table), filters.HasJWT(r.in.Table)
	if hasMirrors || hasBasic || hasAuth || hasBodies || hasJWT {
		r.program("global # programs",
			"tune.lua.bool-sample-conversion normal",
			"tune.lua.openlibs string,table,utf8",
			"tune.lua.maxmem 128",
			"tune.lua.log.loggers off",
		)
	}
	if hasMirrors {
		r.addMirrors()
	}
	if hasBasic || hasAuth {
		r.addAuth()
	}
	if hasBasic {
		r.addUsers()
	}
	if hasBodies {
		r.addBodies()
	}
	if hasJWT {
		r.config.Files[ir.ClaimsFile] = filters.ClaimsProgram
		r.program("global # claims of tokens", "lua-load-per-thread "+r.in.Paths.Map(ir.ClaimsFile))
	}
}

// program adds a section of a program, which may stay once no rule sends requests there. It has a header of its own, so
// that the needs of programs stay out of sections that may not change.
func (r *renderer) program(header string, lines ...string) {
	r.addSection(ir.Section{Header: header, Reason: ir.ReloadSettings, MayStay: true, Lines: ir.Lines("", lines...)})
}

// addKeys adds the keys that verify tokens, and the section that makes HAProxy read them. It does so for each use of a
// file, even if no request gets there.
func (r *renderer) addKeys() {
	var lines []string
	for source, keys := range r.keySets() {
		entries := filters.KeyEntries(keys)
		name := contentName(entries)
		r.config.Contents[ir.KeysFile+" "+name] = ir.Content{File: ir.KeysFile, Entries: named(name, entries)}
		r.config.Maps[ir.KeySetsFile][filters.KeySource(source)] = name
	}
	files := filters.KeyFiles(r.in.Table, r.keySets())
	for _, name := range slices.Sorted(maps.Keys(files)) {
		r.config.Files[name] = files[name]
		lines = append(lines, "http-request set-var(txn.jwt_verified) str(),jwt_verify(RS256,"+r.in.Paths.Map(name)+")")
	}
	if len(lines) > 0 {
		r.addSection(ir.Section{Header: "backend " + ir.KeysBackend + " from common", Reason: ir.ReloadKeys, MayStay: true, Lines: ir.Lines(ir.ReloadKeys, lines...)})
	}
}

// keySets returns the keys that rules need from elsewhere.
func (r *renderer) keySets() map[routing.KeySource][]routing.JWTKey {
	sets := map[routing.KeySource][]routing.JWTKey{}
	r.in.Table.Rules(func(_ *routing.Listener, rule *routing.Rule) {
		if rule.JWT != nil && len(r.in.KeySets[rule.JWT.KeysFrom]) > 0 {
			sets[rule.JWT.KeysFrom] = r.in.KeySets[rule.JWT.KeysFrom]
		}
	})
	return sets
}

// addMirrors adds the sections for copies of requests. A response is read as far as it fits HAProxy's buffer, so that
// it is not cut off. The program gets an empty one instead.
func (r *renderer) addMirrors() {
	paths := r.in.Paths
	r.config.Files[ir.MirrorFile] = filters.MirrorProgram
	r.program("global # copies of requests", "lua-load-per-thread "+paths.Map(ir.MirrorFile)+" "+paths.MirrorSocket())
	r.program("listen mirrors from common",
		"bind "+paths.MirrorSocket()+" mode 600",
		"option httpclose",
		"http-request set-var(txn.backend) req.fhdr("+filters.MirrorHeader+",1)",
		"http-request del-header "+filters.MirrorHeader,
		"http-request del-header expect",
		"http-request set-var(txn.filters) str(timeout=10000&once=1)",
		"http-response wait-for-body time 10s",
		"http-response return status 204",
		"use_backend %[var(txn.backend)]",
	)
}

// addUsers adds the backend of gateway-keys, which checks users. gateway-keys does not run in a pod that does not mount
// their Secret yet.
func (r *renderer) addUsers() {
	var servers []string
	if socket := r.in.Paths.UsersSocket; socket != "" {
		servers = []string{"server keys unix@" + socket}
	}
	r.program("backend "+ir.UsersBackend+" from common", append([]string{"timeout server 10s"}, servers...)...)
}

// addAuth adds the sections for questions about requests. HAProxy counts them, because a program does not learn that
// its client has left. An answer that is too long to be passed on counts as none.
func (r *renderer) addAuth() {
	paths := r.in.Paths
	r.config.Files[ir.AuthFile] = filters.AuthProgram
	r.program("global # questions about requests",
		"lua-load-per-thread "+paths.Map(ir.AuthFile)+" "+paths.AuthSocket(),
	)
	r.program("listen auth from common",
		"bind "+paths.AuthSocket()+" mode 600",
		"http-request deny deny_status 503 if { fe_conn gt 1024 }",
		"http-request set-var(txn.backend) req.fhdr("+filters.AuthBackendHeader+",1)",
		"http-request set-var(txn.filters) req.fhdr("+filters.AuthFiltersHeader+",1)",
		"http-request set-header Host %[req.fhdr("+filters.AuthHostHeader+",1)]",
		"http-request set-method %[req.fhdr("+filters.AuthMethodHeader+",1)] if { req.fhdr_cnt("+filters.AuthMethodHeader+") gt 0 }",
		"http-request del-header gateway-auth- -m beg",
		"http-request del-header accept if { req.fhdr(accept) -m str none }",
		"http-request del-header user-agent if { req.fhdr(user-agent) -m str none }",
		"http-response wait-for-body time 10s at-least 8193",
		"http-response deny deny_status 502 if { res.body_size gt 8192 }",
		"use_backend %[var(txn.backend)]",
	)
}

// addBodies adds what requests of unknown length take on their way: a backend that counts their bodies and sends them
// to a socket, from where they go on. Each has a connection of its own, so that none holds up others. The first section
// bounds the time for the client, and those of backends the time for an answer.
//
// Each such request takes some 10 KB of the memory of programs.
func (r *renderer) addBodies() {
	paths := r.in.Paths
	const set = "http-request set-header "
	r.config.Files[ir.BodyFile] = filters.BodyProgram
	r.program("global # bodies of requests", "lua-load-per-thread "+paths.Map(ir.BodyFile))
	r.program("backend "+filters.BodyBackend+" from common", append([]string{
		"timeout server 24d",
		"filter lua.body",
		"http-error status 400" + env(r.in).Content(413, "the body of the request is too long"),
		"http-request unset-var(txn.counted) if { be_conn gt 1024 }",
		"http-request deny deny_status 503 unless { var(txn.counted) -m found }",
		set + filters.BodyBackendHeader + " %[var(txn.hit),field(4,|)]",
		set + filters.BodyFiltersHeader + " %[var(txn.left)]",
		"server counted unix@" + paths.BodySocket() + " send-proxy-v2 pool-max-conn 0",
	}, filters.CountedLines()...)...)
	r.program("listen counted from common",
		"bind "+paths.BodySocket()+" mode 600 accept-proxy",
		"timeout client 24d",
		"http-request set-var(txn.backend) req.fhdr("+filters.BodyBackendHeader+",1)",
		"http-request set-var(txn.filters) req.fhdr("+filters.BodyFiltersHeader+",1)",
		"http-request set-var(txn.max) var(txn.filters),param(max),add(0)",
		"http-request set-var(txn.stream) bool(true) if { var(txn.filters),param(stream) -m found }",
		"http-request del-header gateway-body- -m beg",
		"use_backend %[var(txn.backend)]",
	)
}
