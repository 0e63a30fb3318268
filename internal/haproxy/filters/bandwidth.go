package filters

import (
	"fmt"
	"slices"
	"strconv"

	"gateway/internal/haproxy/ir"
	"gateway/internal/routing"
)

func init() {
	after(&body, &passage)
	after(&body, &bandwidth)
}

// bandwidth limits the speed of bodies. The parameters "up" and "down" are how many bytes of a request and of its
// answer pass in a second. "from" is how long an answer of known length has to be.
//
// HAProxy's bandwidth filters cost time for each request of their section, so they are in the passage alone.
var bandwidth = filter{
	mayStay: true,
	isUsed:  limitsBandwidth,
	encode: func(in Input, p *params) {
		limit := in.Rule.Bandwidth
		for _, one := range []struct {
			name  string
			value int64
		}{{"up", limit.Request}, {"down", limit.Response}, {"from", limit.MinResponse}} {
			if one.value > 0 {
				p.set(one.name, strconv.FormatInt(one.value, 10))
			}
		}
	},
	rules: func(Env) Rules {
		limits := func(format, condition string) string {
			return `http-request set-var-fmt(txn.left) "%[var(txn.left)]` + format + `" if ` + condition
		}
		one := func(name string) string { return limits("&"+name+"=%["+param(name)+"]", has(name)) }
		return Rules{Request: []string{one("up"), one("down"), limits("&from=%["+param("from")+"]", has("down")+" "+has("from"))}}
	},
	describe: func(rule *routing.Rule) []string {
		limit, all := rule.Bandwidth, []string(nil)
		if limit.Request > 0 {
			all = append(all, fmt.Sprintf("BandwidthLimit: %d bytes of the request in a second", limit.Request))
		}
		if limit.Response > 0 {
			all = append(all, fmt.Sprintf("BandwidthLimit: %d bytes of the answer in a second", limit.Response))
		}
		return all
	},
}

func limitsBandwidth(rule *routing.Rule) bool { return rule.Bandwidth != nil }

// bandwidthLines are the passage's lines for the filter.
var bandwidthLines = []string{
	"filter bwlim-in requests default-limit 1g default-period 1s",
	"filter bwlim-out answers default-limit 1g default-period 1s",
	"http-request set-bandwidth-limit requests limit " + param("up") + ",add(0) if " + has("up"),
	"http-request set-var(txn.from) int(0)",
	"http-request set-var(txn.from) " + param("from") + ",add(0) if " + has("from"),
	"http-response set-bandwidth-limit answers limit " + param("down") + ",add(0) if " + has("down") +
		" !{ res.fhdr_cnt(content-length) gt 0 } or " + has("down") + " { res.fhdr(content-length),sub(txn.from) ge 0 }",
}

// The headers that tell, for a request in the passage, its backend and the parameters there.
const (
	passageBackendHeader = "gateway-body-backend"
	passageFiltersHeader = "gateway-body-filters"
)

// plainBackend is the backend for requests in the passage whose bodies are not counted.
const plainBackend = "limited"

// passage has sections that only requests of body and bandwidth pass, on the way to their backend. The backend of such
// a request is another one, which sends it to a socket; from there it goes on to its own. Each request has a
// connection of its own there, so that none holds up others. The first section bounds the time for the client, and the
// backends' own sections bound the time for an answer.
//
// txn.left has the parameters of filters that are left to be carried out there.
var passage = filter{
	mayStay: true,
	isUsed:  func(rule *routing.Rule) bool { return rule.MaxBody != nil || rule.Bandwidth != nil },
	rules: func(env Env) Rules {
		const passes = "{ var(txn.left) -m found }"
		left := func(parameter, condition string) string {
			return `http-request set-var-fmt(txn.left) "%[var(txn.left)]&` + parameter + `" if ` + passes + " " + condition
		}
		to := func(backend, condition string) string {
			return `http-request set-var-fmt(txn.hit) "%[var(txn.hit)]|` + backend + `" if ` + passes + " " + condition
		}
		lines := []string{
			left(`timeout=%[`+param("timeout")+`]`, has("timeout")),
			left("once=1", has("once")),
			left("stream=1", IsStream),
			to(bodyBackend, isCounted),
		}
		if slices.ContainsFunc(env.Rules, limitsBandwidth) {
			lines = append(lines, to(plainBackend, "!"+isCounted))
		}
		return Rules{Request: lines}
	},
	add: func(env Env, config *ir.Config) {
		lines := []string{
			"bind " + env.Paths.BodySocket() + " mode 600 accept-proxy",
			"timeout client 24d",
			"http-request set-var(txn.backend) req.fhdr(" + passageBackendHeader + ",1)",
			"http-request set-var(txn.filters) req.fhdr(" + passageFiltersHeader + ",1)",
			"http-request set-var(txn.max) " + param("max") + ",add(0)",
			"http-request set-var(txn.stream) bool(true) if " + has("stream"),
			"http-request del-header gateway-body- -m beg",
			"use_backend %[var(txn.backend)]",
		}
		if slices.ContainsFunc(env.Rules, limitsBandwidth) {
			config.Sections = append(config.Sections, spare(ir.ReloadSettings, "backend "+plainBackend+" from common", enterLines(env, plainBackend)...))
			lines = slices.Insert(lines, len(lines)-1, bandwidthLines...)
		}
		config.Sections = append(config.Sections, spare(ir.ReloadSettings, "listen passage from common", lines...))
	},
}

// enterLines lead requests of a section into the passage, by a server.
func enterLines(env Env, server string) []string {
	const set = "http-request set-header "
	return []string{
		"timeout server 24d",
		set + passageBackendHeader + " %[var(txn.hit),field(4,|)]",
		set + passageFiltersHeader + " %[var(txn.left)]",
		"server " + server + " unix@" + env.Paths.BodySocket() + " send-proxy-v2 pool-max-conn 0",
	}
}
