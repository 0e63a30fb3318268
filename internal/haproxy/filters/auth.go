package filters

import (
	"cmp"
	_ "embed" // for authProgram
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gateway/internal/haproxy/ir"
	"gateway/internal/model"
	"gateway/internal/routing"
)

// authProgram asks a Service about requests. It contains no user input.
//
//go:embed auth.lua
var authProgram []byte

// The headers by which authProgram tells the backend to ask, and the parameters there.
const (
	authBackendHeader = "gateway-auth-backend"
	authFiltersHeader = "gateway-auth-filters"
)

// authCookies gives the client the cookies of the answers to questions. The program cannot: HAProxy runs none while
// another one answers.
const authCookies = "http-after-response add-headers-bin var(txn.auth_cookies) if { var(txn.auth_cookies) -m found }"

// question is what the program asks about requests. The parameter with its name is the backend to ask, "-" if there is
// none. NAME.path is the path, NAME.send and NAME.keep are the names of headers that are sent and come back, separated
// by commas, and NAME.timeout is in milliseconds.
type question struct {
	backend, path string
	send, keep    []string
	timeout       time.Duration
}

func (q question) encode(name string, p *params) {
	limit := q.timeout
	if limit <= 0 || limit > longest {
		limit = longest
	}
	p.set(name, cmp.Or(q.backend, "-"))
	p.set(name+".path", q.path)
	p.set(name+".send", strings.Join(q.send, ","))
	p.set(name+".keep", strings.Join(q.keep, ","))
	p.set(name+".timeout", strconv.FormatInt(max(1, int64(limit/time.Millisecond)), 10))
}

// questionRules ask a question.
//
// In shadow, the backend gets none of these headers with a request that would have been refused.
func questionRules(env Env, name string, answers ...string) []string {
	asked := " if " + has(name)
	rules := slices.Concat([]string{
		"http-request set-var(txn.auth) " + text(name) + asked,
		"http-request set-var(txn.auth_path) " + text(name+".path") + asked,
		"http-request set-var(txn.auth_send) " + text(name+".send") + asked,
		"http-request set-var(txn.auth_keep) " + text(name+".keep") + asked,
		`http-request set-var-fmt(txn.auth_filters) "timeout=%[` + param(name+".timeout") + `]&once=1"` + asked,
	}, askRules(env, has(name), answers...))
	if env.isShadow {
		rules = append(rules, "http-request del-headers-bin "+list(name+".drop")+" if "+isRefused)
	}
	return rules
}

// cannotDecide is the body of the answer if nobody can decide about a request.
const cannotDecide = "authorization is temporarily unavailable"

// askRules ask about the requests that meet a condition. Only the program lets a request pass. The client's own values
// of headers that come back are removed either way. The answer to one question does not count for the next. If the
// program denies the request, the client gets its answer. Without an answer, the request is refused. In shadow, the
// program is not asked about a request that is refused already.
func askRules(env Env, condition string, answers ...string) []string {
	asked := " if " + condition
	rules := []string{"http-request unset-var(txn.authorized)" + asked}
	if env.isShadow {
		asked += " !" + isRefused
		answers = append(answers, would("var(txn.refused)", "{ var(txn.refused) -m found }"), "http-request unset-var(txn.refused)")
	}
	rules = append(rules, "http-request lua.auth"+asked)
	return slices.Concat(teamLines(env, condition), rules, answers, env.refuse(503, cannotDecide, "", condition+" !{ var(txn.authorized) -m bool }"))
}

// auth lets a Service decide about requests, by a question. The parameter "auth.body" is the most bytes of a body that
// goes with the question, and "auth.cache" is how answers are kept.
//
// A body whose length is not known is waited for until it is longer than any may be. HAProxy's buffer always holds that
// beside the headers, so what was waited for is the whole body, or too long.
var auth = filter{
	guard: "ExternalAuth", param: "auth", mayStay: true,
	isUsed: func(rule *routing.Rule) bool { return rule.ExternalAuth != nil || rule.PreRouting != nil },
	names: func(rule *routing.Rule) []string {
		if rule.PreRouting == nil {
			return nil
		}
		return []string{"before a rule is chosen"}
	},
	encode: func(in Input, p *params) {
		auth := in.Rule.ExternalAuth
		if auth == nil {
			return
		}
		if in.Rule.Shadows("ExternalAuth") {
			drops(p, "auth", auth.ResponseHeaders)
		}
		encodeAuth(in, auth, p)
		if auth.Cache != nil {
			p.set("auth.cache", cacheText(auth.Cache))
		}
	},
	rules: func(env Env) Rules {
		const withBody = "{ var(txn.auth_body) -m found }"
		tooLong := func(condition string) []string {
			return env.refuse(413, "the body of the request is too long", "", withBody+" "+condition)
		}
		wait := "http-request wait-for-body time 10s at-least " + strconv.Itoa(model.MaxAuthBody+1) + " if " + withBody
		if env.isShadow {
			wait += " !" + isRefused
		}
		return Rules{
			Request: slices.Concat([]string{
				"http-request set-var(txn.auth_repeat) bool(true) if " + has("auth.repeat"),
				"http-request set-var(txn.auth_cache) " + text("auth.cache") + " if " + has("auth.cache"),
				"http-request set-var(txn.auth_body) " + param("auth.body") + ",add(0) if " + has("auth.body"),
			}, tooLong("{ req.body_size,sub(txn.auth_body) gt 0 }"), []string{wait}, tooLong("{ req.body_len,sub(txn.auth_body) gt 0 }"), questionRules(env, "auth")),
			AfterResponse: []string{authCookies},
		}
	},
	add: addQuestions,
	describe: func(rule *routing.Rule) (all []string) {
		if rule.PreRouting != nil {
			all = describeAuth("ExternalAuth before a rule is chosen", &rule.PreRouting.ExternalAuth)
		}
		if rule.ExternalAuth != nil {
			all = append(all, describeAuth("ExternalAuth", rule.ExternalAuth)...)
		}
		return all
	},
}

func encodeAuth(in Input, auth *model.ExternalAuth, p *params) {
	question{in.BackendFor(auth.Backend), auth.Path, auth.RequestHeaders, auth.ResponseHeaders, auth.Timeout}.encode("auth", p)
	if auth.Repeat {
		p.set("auth.repeat", "1")
	}
	if most := auth.MaxBody; most > 0 {
		if in.Rule.MaxBody != nil && !in.Rule.Shadows(bodyGuard) {
			most = min(most, *in.Rule.MaxBody)
		}
		p.set("auth.body", strconv.FormatInt(most, 10))
	}
}

func describeAuth(name string, auth *model.ExternalAuth) []string {
	at, status := auth.Path, "2xx"
	if auth.Repeat {
		at, status = auth.Path+"/...", "200"
	}
	all := []string{fmt.Sprintf("%s: Service %s at %s has to answer %s, else the client gets its answer or 503", name, auth.Backend, at, status)}
	if auth.MaxBody > 0 {
		all = append(all, fmt.Sprintf("%s: the Service gets bodies of up to %d bytes, else the client gets 413", name, auth.MaxBody))
	}
	if cache := auth.Cache; cache != nil {
		all = append(all, fmt.Sprintf("%s: answers are kept for up to %s, for requests that send the same%s", name, cache.MaxAge, keyText(cache)))
	}
	return all
}

// cacheText returns the parameter of a cache of answers: its seconds, headers, cookies, and seconds by status.
func cacheText(cache *model.AuthCache) string {
	durations := make([]string, len(cache.Durations))
	for i := range cache.Durations {
		of := &cache.Durations[i]
		durations[i] = fmt.Sprintf("%d=%d", of.Status, of.Keep/time.Second)
	}
	return fmt.Sprintf("%d;%s;%s;%s", cache.MaxAge/time.Second, strings.Join(cache.Headers, ","), strings.Join(cache.Cookies, ","), strings.Join(durations, ","))
}

// keyText returns the text about what requests with the same answer have in common, "" if it is all that is sent.
func keyText(cache *model.AuthCache) string {
	if len(cache.Headers)+len(cache.Cookies) == 0 {
		return ""
	}
	text := " Host, body and Authorization"
	for _, some := range []struct {
		kind  string
		names []string
	}{{"headers ", cache.Headers}, {"cookies ", cache.Cookies}} {
		if len(some.names) > 0 {
			text += ", " + some.kind + strings.Join(some.names, ", ")
		}
	}
	return text
}

// addQuestions adds what questions about requests need. HAProxy counts them, because a program does not learn that its
// client has left. The room of a question is KIND/NAME. An answer that is too long to be passed on is none.
func addQuestions(env Env, config *ir.Config) {
	addExchange(env, config)
	addProgram(env, config, "questions about requests", ir.AuthFile, authProgram, " "+env.Paths.AuthSocket(), spare(ir.ReloadSettings, "listen auth from common", slices.Concat([]string{
		"bind " + env.Paths.AuthSocket() + " mode 600",
	}, roomLines(env, "req.fhdr("+ir.RoomHeader+",1),field(1,/)", "req.fhdr("+ir.RoomHeader+",1)", "req.fhdr("+ir.TeamHeader+",1)"), []string{
		"http-request set-var(txn.backend) req.fhdr(" + authBackendHeader + ",1)",
		"http-request set-var(txn.filters) req.fhdr(" + authFiltersHeader + ",1)",
		"http-request del-header gateway-auth- -m beg",
		"http-request del-header " + ir.RoomHeader + " unless { var(txn.backend) -m str " + ir.UsersBackend + " }",
		"http-request del-header " + ir.TeamHeader + " unless { var(txn.backend) -m str " + ir.UsersBackend + " }",
		"http-response wait-for-body time 10s at-least 8193",
		"http-response deny deny_status 502 if { res.body_size gt 8192 }",
		"use_backend %[var(txn.backend)]",
	})...))
}

// These bound the questions under way of one kind, and in one room of it: a Service that hangs, or a client that asks
// too much, leaves places for others. The questions of one team are bounded in the same way, over all kinds.
const (
	mostQuestions       = 1024
	mostQuestionsOfRoom = 256
)

// roomLines bound the questions that a section leads on, by expressions for their kind, room and team.
func roomLines(env Env, kind, room, team string) []string {
	isOfTeam := "{ " + team + " -m len gt 0 }"
	return []string{
		teamTable,
		"http-request track-sc0 " + kind,
		"http-request track-sc1 " + room,
		fmt.Sprintf("http-request deny deny_status 503 unless { sc0_tracked } { sc1_tracked } { sc0_conn_cur le %d } { sc1_conn_cur le %d }", mostQuestions, mostQuestionsOfRoom),
		"http-request track-sc2 " + team + byTeam + " if " + isOfTeam,
		fmt.Sprintf("http-request deny deny_status 503 if %s !{ sc2_tracked } or %[1]s { sc2_conn_cur gt %d }", isOfTeam, env.Table.Shares.Questions),
	}
}
