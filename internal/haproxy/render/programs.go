package render

import (
	"maps"
	"slices"

	"gateway/internal/haproxy/feature"
	"gateway/internal/haproxy/ir"
)

// addPrograms adds the programs that rules need, and the sections that lead what they send to its backends. All have
// headers of their own, so that they stay when the last such rule goes: a change of other sections would take a reload.
//
// Rules of the backends bound the time for an answer, as they do for requests: see package feature.
//
// The programs can do nothing but what their two libraries let them, and have so much memory. Each thread has its own
// state of them.
func (r *renderer) addPrograms() {
	hasMirrors, hasBasic, hasAuth := feature.HasMirrors(r.in.Table), feature.HasBasic(r.in.Table), feature.HasAuth(r.in.Table)
	if hasMirrors || hasBasic || hasAuth {
		r.section("global # programs",
			"tune.lua.bool-sample-conversion normal",
			"tune.lua.openlibs string,table",
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
}

// addKeys adds the keys that tokens are signed with, and what has HAProxy read them. It does so for each use of a file,
// whether or not a request gets there.
func (r *renderer) addKeys() {
	var lines []string
	files := feature.KeyFiles(r.in.Table)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		r.config.Files[name] = files[name]
		lines = append(lines, "http-request set-var(txn.jwt_verified) str(),jwt_verify(RS256,"+r.in.Paths.Map(name)+")")
	}
	if len(lines) > 0 {
		r.section("backend "+ir.KeysBackend+" from common", lines...)
	}
}

// addMirrors adds what copies of requests need. An answer is read as far as it fits HAProxy's buffer, so that it is not
// cut off. The program gets an empty one in its place.
func (r *renderer) addMirrors() {
	paths := r.in.Paths
	r.config.Files[ir.MirrorFile] = feature.MirrorProgram
	r.section("global # copies of requests", "lua-load-per-thread "+paths.Map(ir.MirrorFile)+" "+paths.MirrorSocket())
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

// addUsers adds where gateway-keys is asked about users. In a pod that does not mount their Secret yet, it does not run.
func (r *renderer) addUsers() {
	var servers []string
	if socket := r.in.Paths.UsersSocket; socket != "" {
		servers = []string{"server keys unix@" + socket}
	}
	r.section("backend "+ir.UsersBackend+" from common", append([]string{"timeout server 10s"}, servers...)...)
}

// addAuth adds what questions about requests need. HAProxy counts them, because a program does not learn that its
// client has left. An answer that is too long to be passed on is none.
func (r *renderer) addAuth() {
	paths := r.in.Paths
	r.config.Files[ir.AuthFile] = feature.AuthProgram
	r.section("global # questions about requests", "lua-load-per-thread "+paths.Map(ir.AuthFile)+" "+paths.AuthSocket())
	r.section("listen auth from common",
		"bind "+paths.AuthSocket()+" mode 600",
		"http-request deny deny_status 503 if { fe_conn gt 1024 }",
		"http-request set-var(txn.backend) req.fhdr("+feature.AuthBackendHeader+",1)",
		"http-request set-var(txn.filters) req.fhdr("+feature.AuthFiltersHeader+",1)",
		"http-request set-header Host %[req.fhdr("+feature.AuthHostHeader+",1)] if { req.fhdr_cnt("+feature.AuthHostHeader+") gt 0 }",
		"http-request set-method %[req.fhdr("+feature.AuthMethodHeader+",1)] if { req.fhdr_cnt("+feature.AuthMethodHeader+") gt 0 }",
		"http-request del-header gateway-auth- -m beg",
		"http-request del-header accept if { req.fhdr(accept) -m str none }",
		"http-request del-header user-agent if { req.fhdr(user-agent) -m str none }",
		"http-response wait-for-body time 10s at-least 8193",
		"http-response deny deny_status 502 if { res.body_size gt 8192 }",
		"use_backend %[var(txn.backend)]",
	)
}
