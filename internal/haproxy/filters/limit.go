package filters

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"gateway/internal/haproxy/ir"
	"gateway/internal/model"
	"gateway/internal/routing"
)

// limit answers 429 to requests beyond a rate, or beyond a number of concurrent requests. A rule has up to one limit
// for each unit of time, and one of concurrent requests. A request has to be within all of them. The parameter "limit"
// names the rule, or the listener whose rules count together. There are others for each unit, and for the unit
// "concurrent":
//   - "limit.UNIT.for" takes the place of "limit", of a rule with limits of its own and of a listener.
//   - "limit.UNIT" is how many requests there may be.
//   - "limit.UNIT.by" says what requests are counted by.
//   - "limit.UNIT.retry" is the seconds of Retry-After. With a unit of time, a client that waits is surely let through.
//
// All proxy pods have the same tables of rates, which HAProxy keeps equal. There, each pod has an entry of its own for
// each key: no two pods write the same one, and the sum of all is what counts. The key of an entry begins with the id
// of the pod. pods.map has the ids of all pods, one after the other, the own one first.
//
// Each pod counts concurrent requests separately. If the count were shared, the requests of a crashed pod would never
// be subtracted.
//
// HAProxy takes no name of a table, period or name of a header from data. So there are a table and rules for each unit,
// and rules for each header and cookie.
//
// Limits by a claim or client come after the token or key is verified, and all others before, so that a flood of tokens
// is stopped before signatures are verified. A rule has one limit for each unit, so both use the same tables and
// counters. In the names of parameters and variables, units of limits that come later end with byUser.
var limit, userLimit = filter{
	guard: "RateLimit", param: "limit", mayStay: true,
	isUsed: func(rule *routing.Rule) bool { return len(rule.RateLimits) > 0 },
	names: func(rule *routing.Rule) []string {
		var names []string
		for _, limit := range rule.RateLimits {
			names = append(names, units[limit.Period]+" "+limitedBy(limit))
		}
		if hasScopes(rule) {
			names = append(names, "scopes")
		}
		return names
	},
	needsClient: func(rule *routing.Rule) bool {
		return slices.ContainsFunc(rule.RateLimits, func(limit routing.RateLimit) bool { return limit.Key == model.ByClientAddress })
	},
	encode: func(in Input, p *params) {
		scope := in.Rule.RateLimitScope(in.Rule.RateLimits[0])
		p.set("limit", scope)
		for _, limit := range in.Rule.RateLimits {
			if other := in.Rule.RateLimitScope(limit); other != scope {
				p.set("limit."+units[limit.Period]+placeOf(limit)+".for", other)
			}
			// At the end of the period, the oldest requests begin to count less.
			retry := limit.Period + max(time.Second, limit.Period/time.Duration(limit.Requests))
			name := "limit." + units[limit.Period] + placeOf(limit)
			p.set(name, strconv.Itoa(int(limit.Requests)))
			p.set(name+".by", limitedBy(limit))
			p.set(name+".retry", strconv.Itoa(int((retry+time.Second-1)/time.Second)))
		}
	},
	rules: func(env Env) Rules { return limitRules(env, "") },
	// Tables of limits stay, since no rule counts in them any more.
	add: func(env Env, config *ir.Config) {
		if len(ratesOf(env.Rules)) > 0 {
			pods, tables := peersLines(env)
			config.Sections = append(config.Sections, ir.Section{
				Header: peersHeader, Reason: ir.ReloadLimits, MayStay: true,
				Lines: slices.Concat(ir.Lines("", pods...), ir.Lines(ir.ReloadLimits, tables...)),
			})
		}
		if limitsOf(env.Rules, "", byUser)[0] != nil {
			config.Sections = append(config.Sections, spare(ir.ReloadLimits, "backend "+ir.ConcurrentTable+" from common", "stick-table type string len 41 "+CurrentTable))
		}
	},
	describe: func(rule *routing.Rule) []string { return limitTexts(rule, "") },
}, filter{
	guard: "RateLimit", param: "limit", mayStay: true,
	isUsed: func(rule *routing.Rule) bool { return len(rule.RateLimits) > 0 },
	check: func(rule *routing.Rule) string {
		for _, limit := range rule.RateLimits {
			switch {
			case limit.Key == model.ByClaim && rule.JWT == nil && rule.OIDC == nil:
				return fmt.Sprintf("rateLimit counts by the claim %s, which needs a JWT or an OIDC: add one, or a RateLimit without claims", limit.Name)
			case limit.Key == model.ByClaim && isMissing(rule, limit.Name):
				return fmt.Sprintf("rateLimit counts by the claim %s, which no session of an OIDC has: use another claim", limit.Name)
			case limit.Key == model.ByClient && !namesClients(rule):
				return "rateLimit counts by the client, which needs an APIKey or a BasicAuth: add one, or a RateLimit with another key"
			}
		}
		return ""
	},
	rules:    func(env Env) Rules { return limitRules(env, byUser) },
	describe: func(rule *routing.Rule) []string { return limitTexts(rule, byUser) },
}

// byUser is the end of the names for limits by a claim or client.
const byUser = "_user"

// hasScopes reports whether a rule has limits of its own and of a listener.
func hasScopes(rule *routing.Rule) bool {
	return slices.ContainsFunc(rule.RateLimits, func(limit routing.RateLimit) bool {
		return limit.Listener != rule.RateLimits[0].Listener
	})
}

// placeOf returns the end of the names for a limit.
func placeOf(limit routing.RateLimit) string {
	if limit.Key == model.ByClaim || limit.Key == model.ByClient {
		return byUser
	}
	return ""
}

// limitRules are the rules of the limits whose names end so.
func limitRules(env Env, place string) Rules {
	limits := limitsOf(env.Rules, place)
	if len(limits) == 0 {
		return Rules{}
	}
	// A request counts for all limits of a place or for none. One beyond the concurrent requests is not tracked, so that
	// it takes no place. Of several that come at once for the last place, all may be refused.
	//
	// In shadow, it goes on without counting, and no client learns of the limits.
	tooMany := env.refuse(429, "there are too many requests", ` hdr retry-after "%[var(txn.retry)]"`, "{ var(txn.retry) -m found }")
	var left, retry, track, refuse, recheck, count, after, skip, hide []string
	for _, period := range slices.Sorted(maps.Keys(limits)) {
		unit, table, counter := units[period]+place, tableOf(period), counters[period]
		variable := "var(txn.left_" + unit + ")"
		limited := " if { " + variable + " -m found }"
		entry := entryOf(0, unit)
		left = append(left, countedLines(unit, limits[period], slices.ContainsFunc(env.Rules, hasScopes))...)
		if period == 0 {
			entry = "var(txn.counted_" + unit + ")"
			left = append(left, "http-request set-var(txn.left_"+unit+") "+entry+",table_conn_cur("+table+"),neg,add(txn.left_"+unit+")")
			recheck = append(recheck,
				fmt.Sprintf("http-request set-var(txn.concurrent) sc_conn_cur(%d)", counter),
				"http-request set-var(txn.retry) "+param("limit."+unit+".retry")+" if { "+param("limit."+unit)+",sub(txn.concurrent) -m int lt 0 }",
			)
			recheck = append(recheck, tooMany...)
		} else {
			left = append(left, leftLines(unit, table, env.Paths)...)
			count = append(count,
				fmt.Sprintf("http-request sc-add-gpc(0,%d) %d", counter, requestUnits)+limited,
				"http-request set-var(txn.left_"+unit+") "+variable+",sub(1)",
			)
			after = append(after, afterLines(period, unit)...)
		}
		retry = append(retry, "http-request set-var(txn.retry) "+param("limit."+unit+".retry")+" if { "+variable+" -m int le 0 }")
		track = append(track, fmt.Sprintf("http-request track-sc%d %s table %s", counter, entry, table))
		refuse = append(refuse, env.refuse(503, "the request cannot be counted", "", "{ "+variable+" -m found }"+fmt.Sprintf(" !{ sc_tracked(%d) }", counter))...)
		skip, hide = append(skip, skipLines(unit, isRefused)...), append(hide, skipLines(unit, inShadow)...)
	}
	if !env.isShadow {
		skip, hide = nil, nil
	} else if place == byUser {
		tooMany = append([]string{would("int(429)", "{ var(txn.shadow) -m sub RateLimit }")}, tooMany...)
	}
	return Rules{
		Request: slices.Concat(left, retry, tooMany, skip, track, refuse, recheck, skip, count, hide),
		AfterResponse: append(after,
			`http-after-response set-header ratelimit-policy "%[var(txn.policies),bytes(2)]" if { var(txn.policies) -m found }`,
			`http-after-response set-header ratelimit "%[var(txn.limits),bytes(2)]" if { var(txn.limits) -m found }`,
		),
	}
}

// skipLines end what a limit does with requests that meet a condition.
func skipLines(unit, condition string) []string {
	return []string{
		"http-request unset-var(txn.left_" + unit + ") if " + condition,
		"http-request unset-var(txn.pods_" + unit + ") if " + condition,
		"http-request unset-var(txn.counted_" + unit + ") if " + condition,
	}
}

// afterLines add a limit to the headers of the answer.
func afterLines(period time.Duration, unit string) []string {
	name, seconds, variable := units[period], strconv.Itoa(int(period/time.Second)), "var(txn.left_"+unit+")"
	limited := " if { " + variable + " -m found }"
	return []string{
		"http-after-response set-var(txn.left_" + unit + ") int(0) if { " + variable + " -m int lt 0 }",
		`http-after-response set-var-fmt(txn.policies) "%[var(txn.policies)], \"` + name + `\";q=%[` + param("limit."+unit) + "];w=" + seconds + `"` + limited,
		`http-after-response set-var-fmt(txn.limits) "%[var(txn.limits)], \"` + name + `\";r=%[` + variable + "];t=" + seconds + `"` + limited,
	}
}

// units are the names of the tables, by their periods.
var units = map[time.Duration]string{0: ir.ConcurrentTable, time.Second: "second", time.Minute: "minute", time.Hour: "hour"}

// counters are the numbers of HAProxy's stick counters that limits use, beside the counters of all requests.
var counters = map[time.Duration]int{time.Second: 3, time.Minute: 4, time.Hour: 5, 0: 7}

// requestUnits is how much a request adds to a counter. HAProxy rounds each rate down, so a sum over several pods
// would be too small by half a request for each pod. With units, the sum is rounded to the nearest request.
const requestUnits = 100

// tableOf returns the table of a period.
func tableOf(period time.Duration) string {
	if period == 0 {
		return ir.ConcurrentTable
	}
	return ir.PodsSection + "/" + rateTable(period)
}

// rateTable returns the name of a period's table within the section of peers. It has requestUnits, so that pods of
// versions that count in other units count apart.
func rateTable(period time.Duration) string { return fmt.Sprintf("%s_%d", units[period], requestUnits) }

// entryOf returns the expression for the key of a pod's entry, for what a request counts for in a unit. There is none
// for a rule without a limit for the unit.
func entryOf(pod int, unit string) string {
	return fmt.Sprintf("var(txn.pods_%s),bytes(%d,%d),concat(,txn.counted_%[1]s)", unit, pod*ir.PodIDSize, ir.PodIDSize)
}

// countedLines set txn.left_UNIT to how many requests there may be, and txn.counted_UNIT to what they count for. A
// header or cookie that is there twice does not tell requests apart: the backend could take the other one.
func countedLines(unit string, limits map[string]routing.RateLimit, scopes bool) []string {
	counted, by := "txn.counted_"+unit, "limit."+unit+".by"
	limited := " if { var(txn.left_" + unit + ") -m found }"
	lines := []string{"http-request set-var(txn.left_" + unit + ") " + param("limit."+unit) + ",add(0)"}
	if !strings.HasSuffix(unit, byUser) {
		lines = append(lines,
			"http-request set-var("+counted+") var(txn.client),ipmask(32,64) if "+is(by, "client"),
			"http-request set-var("+counted+") var(txn.clean) if "+is(by, "path"),
		)
	}
	for _, value := range slices.Sorted(maps.Keys(limits)) {
		name := ir.Quote(limits[value].Name, ir.InName)
		switch limits[value].Key {
		case model.ByHeader:
			lines = append(lines, "http-request set-var("+counted+") req.fhdr("+name+") if "+is(by, value)+" { req.fhdr_cnt("+name+") eq 1 }")
		case model.ByCookie:
			place := model.CredentialPlace{In: model.InCookie, Name: limits[value].Name}
			part := partOf(place)
			lines = append(lines, crumbLines(map[string]model.CredentialPlace{value: place})...)
			lines = append(lines, "http-request set-var("+counted+") "+inQuotes(part.text+",regsub('"+part.one()+`','\1')`)+" if "+is(by, value)+" { "+part.text+" -m reg '"+part.one()+"' }")
		case model.ByClient:
			lines = append(lines, "http-request set-var("+counted+") "+ClientLog+" if "+is(by, value))
		case model.ByClaim:
			// A claim means what its issuer says.
			lines = append(lines, "http-request set-var-fmt("+counted+`) "%[var(txn.jwt_iss)] %[`+inner(claimText(limits[value].Name))+`]" if `+is(by, value))
		}
	}
	scope := func(name, condition string) string {
		return "http-request set-var-fmt(" + counted + `) "%[` + param(name) + `] %[` + param(by) + `] %[var(` + counted + `)]"` + limited + condition
	}
	if other := "limit." + unit + ".for"; scopes {
		lines = append(lines, scope("limit", " !"+has(other)), scope(other, " "+has(other)))
	} else {
		lines = append(lines, scope("limit", ""))
	}
	return append(lines, "http-request set-var("+counted+") var("+counted+"),sha1,hex")
}

// leftLines subtract the counts of all pods from txn.left_UNIT.
func leftLines(unit, table string, paths ir.Paths) []string {
	set, variable := "http-request set-var(txn.left_"+unit+") ", "var(txn.left_"+unit+")"
	limited := " if { " + variable + " -m found }"
	lines := []string{
		"http-request set-var(txn.pods_" + unit + ") str(" + ir.PodsKey + "),map_str(" + paths.Map(ir.PodsFile) + ")" + limited,
		set + fmt.Sprintf("%s,mul(%d)", variable, requestUnits) + limited,
	}
	for pod := range ir.MaxPods {
		lines = append(lines, set+entryOf(pod, unit)+",table_gpc_rate(0,"+table+"),neg,add(txn.left_"+unit+")")
	}
	return append(lines, set+fmt.Sprintf("%s,add(%d),div(%d)", variable, requestUnits/2, requestUnits)+limited)
}

// limitedBy returns what requests are counted by, as a word for a parameter.
func limitedBy(limit routing.RateLimit) string {
	switch limit.Key {
	case model.ByHeader:
		return "header." + ir.Quote(limit.Name, ir.InName)
	case model.ByCookie:
		return "cookie." + ir.Quote(limit.Name, ir.InName)
	case model.ByPath:
		return "path"
	case model.ByRule:
		return "rule"
	case model.ByClaim:
		return "claim." + claimWord(limit.Name)
	case model.ByClient:
		return "name"
	}
	return "client"
}

// limitTexts describe to users the limits of a rule with this end of their names.
func limitTexts(rule *routing.Rule, place string) []string {
	var all []string
	for _, limit := range rule.RateLimits {
		if placeOf(limit) != place {
			continue
		}
		what := "concurrent requests"
		if limit.Period != 0 {
			what = "requests per " + units[limit.Period]
		}
		all = append(all, fmt.Sprintf("RateLimit: %d %s for %s, else 429", limit.Requests, what, limitKey(limit)))
	}
	return all
}

// limitKey tells users which requests count together.
func limitKey(limit routing.RateLimit) string {
	switch limit.Key {
	case model.ByHeader:
		return "each value of the header " + limit.Name
	case model.ByCookie:
		return "each value of the cookie " + limit.Name
	case model.ByPath:
		return "each path"
	case model.ByRule:
		if limit.Listener != "" {
			return "all requests of listener " + limit.Listener
		}
		return "all requests of the rule"
	case model.ByClaim:
		return "each value of the claim " + limit.Name
	case model.ByClient:
		return "each client by its name"
	}
	return "each client address"
}

// limitsOf returns a limit for each period in rules and each thing that requests are counted by there, of those whose
// names end like one of these.
func limitsOf(rules []*routing.Rule, places ...string) map[time.Duration]map[string]routing.RateLimit {
	limits := map[time.Duration]map[string]routing.RateLimit{}
	for _, rule := range rules {
		for _, limit := range rule.RateLimits {
			if !slices.Contains(places, placeOf(limit)) {
				continue
			}
			if limits[limit.Period] == nil {
				limits[limit.Period] = map[string]routing.RateLimit{}
			}
			limits[limit.Period][limitedBy(limit)] = limit
		}
	}
	return limits
}

// ratesOf returns the periods in rules, in order. Concurrent requests have none.
func ratesOf(rules []*routing.Rule) []time.Duration {
	limits := limitsOf(rules, "", byUser)
	delete(limits, 0)
	return slices.Sorted(maps.Keys(limits))
}

// peersHeader is the header of the section for limits that pods count together.
const peersHeader = "peers " + ir.PodsSection

// HasRates reports whether a configuration may have limits that pods count together.
func HasRates(config ir.Config) bool {
	return slices.ContainsFunc(config.Sections, func(s ir.Section) bool { return s.Header == peersHeader })
}

// CurrentTable are the settings of tables that count something momentary. HAProxy may find no room in a full table,
// even if only few of its entries are in use. So the table is large, and drops unused entries soon. HAProxy allocates
// an entry when it is used.
const CurrentTable = "size 1m expire 1s store conn_cur"

// peersLines are the lines of the section of peers: the pods, and the tables that rate limits count in.
func peersLines(env Env) (pods, tables []string) {
	pods = []string{"bind unix@" + env.Paths.PeersSocket() + " mode 600", "server " + ir.OwnPeer}
	for i := 1; i < ir.MaxPods; i++ {
		pods = append(pods, fmt.Sprintf("server %s unix@%s", ir.PeerName(i), env.Paths.PodsSocket()))
	}
	for _, period := range ratesOf(env.Rules) {
		tables = append(tables, fmt.Sprintf("table %s type string len %d size 200k expire %ds store gpc_rate(1,%ds)",
			rateTable(period), ir.PodIDSize+41, 2*period/time.Second, period/time.Second))
	}
	return pods, tables
}
