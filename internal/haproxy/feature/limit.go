package feature

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"gateway/internal/haproxy/ir"
	"gateway/internal/model"
	"gateway/internal/routing"
)

// limit answers 429 to requests beyond a rate. The parameter "limit" names what is counted, "limit.max" is how many
// requests there may be, "limit.unit" names the table, "limit.by" says what requests are counted by, "limit.window" is
// the period in seconds, and "limit.retry" is after how many seconds a client that waits is surely let through.
//
// All proxy pods have the same tables, which HAProxy keeps equal. There, each pod has an entry of its own for each key:
// no two pods write the same one, and the sum of all is what counts. The key of an entry begins with the id of the pod.
// pods.map has the ids of all pods, one after the other, the own one first.
//
// HAProxy takes no name of a table, period or name of a header from data. So there is a table for each unit, and there
// are rules for each header and cookie.
var limit = feature{
	encode: func(in Input, p *params) {
		limit := in.Rule.RateLimit
		if limit == nil {
			return
		}
		// At the end of the period, the oldest requests begin to count less.
		retry := limit.Period + max(time.Second, limit.Period/time.Duration(limit.Requests))
		p.set("limit", in.Rule.Kind+"/"+in.Rule.Route+"/"+strconv.Itoa(in.Rule.Index))
		p.set("limit.max", strconv.Itoa(int(limit.Requests)))
		p.set("limit.unit", units[limit.Period])
		p.set("limit.by", limitedBy(limit))
		p.set("limit.window", strconv.Itoa(int(limit.Period/time.Second)))
		p.set("limit.retry", strconv.Itoa(int((retry+time.Second-1)/time.Second)))
	},
	rules: func(env Env) Rules {
		limits := limitsOf(env.Table)
		if len(limits) == 0 {
			return Rules{}
		}
		limited := " if " + has("limit")
		lines := countedLines(limits)
		var counting []string
		for _, period := range periods(env.Table) {
			unit := units[period]
			pods, table := "var(txn.pods_"+unit+")", ir.PodsSection+"/"+unit
			lines = append(lines, "http-request set-var(txn.pods_"+unit+") str("+ir.PodsKey+"),map_str("+env.Paths.Map(ir.PodsFile)+") if "+is("limit.unit", unit))
			for i := range ir.MaxPods {
				lines = append(lines, fmt.Sprintf("http-request set-var(txn.count) %s,bytes(%d,%d),concat(,txn.counted),table_gpc_rate(0,%s),add(txn.count)",
					pods, i*ir.PodIDSize, ir.PodIDSize, table))
			}
			counting = append(counting, fmt.Sprintf("http-request track-sc3 %s,bytes(0,%d),concat(,txn.counted) table %s", pods, ir.PodIDSize, table))
		}
		lines = append(lines,
			"http-request set-var(txn.left) "+param("limit.max")+",sub(txn.count)"+limited,
			"http-request return "+ir.TextAnswer("429", "there are too many requests")+` hdr retry-after "%[`+param("limit.retry")+`]"`+limited+" !{ var(txn.left) -m int gt 0 }",
		)
		lines = append(lines, counting...)
		lines = append(lines,
			"http-request return "+ir.TextAnswer("503", "the request cannot be counted")+limited+" !{ sc_tracked(3) }",
			"http-request sc-inc-gpc(0,3)"+limited,
			"http-request set-var(txn.left) var(txn.left),sub(1)"+limited,
		)
		const hasLeft = " if { var(txn.left) -m found }"
		return Rules{Request: lines, AfterResponse: []string{
			"http-after-response set-var(txn.left) int(0) if { var(txn.left) -m int lt 0 }",
			`http-after-response set-header ratelimit-policy "\"default\";q=%[` + param("limit.max") + "];w=%[" + param("limit.window") + `]"` + hasLeft,
			`http-after-response set-header ratelimit "\"default\";r=%[var(txn.left)];t=%[` + param("limit.window") + `]"` + hasLeft,
		}}
	},
}

// units are the names of the tables, by their periods.
var units = map[time.Duration]string{time.Second: "second", time.Minute: "minute", time.Hour: "hour"}

// limitedBy returns what requests are counted by, as a word for a parameter.
func limitedBy(limit *routing.RateLimit) string {
	switch limit.Key {
	case model.ByHeader:
		return "header." + ir.Quote(limit.Name, ir.InName)
	case model.ByCookie:
		return "cookie." + ir.Quote(limit.Name, ir.InName)
	case model.ByPath:
		return "path"
	case model.ByRule:
		return "rule"
	}
	return "client"
}

// limitsOf returns a limit for each thing that requests are counted by in a table.
func limitsOf(table routing.Table) map[string]*routing.RateLimit {
	limits := map[string]*routing.RateLimit{}
	table.Rules(func(_ *routing.Listener, rule *routing.Rule) {
		if rule.RateLimit != nil {
			limits[limitedBy(rule.RateLimit)] = rule.RateLimit
		}
	})
	return limits
}

// countedLines set txn.counted to what a request counts for. A header or cookie that is there twice does not tell
// requests apart: the backend could take the other one.
func countedLines(limits map[string]*routing.RateLimit) []string {
	lines := []string{
		"http-request set-var(txn.counted) var(txn.client),ipmask(32,64) if " + is("limit.by", "client"),
		"http-request set-var(txn.counted) var(txn.clean) if " + is("limit.by", "path"),
	}
	for _, by := range slices.Sorted(maps.Keys(limits)) {
		name := ir.Quote(limits[by].Name, ir.InName)
		set := "http-request set-var(txn.counted) req.%[1]s(" + name + ") if " + is("limit.by", by) + " { req.%[1]s_cnt(" + name + ") eq 1 }"
		switch limits[by].Key {
		case model.ByHeader:
			lines = append(lines, fmt.Sprintf(set, "fhdr"))
		case model.ByCookie:
			lines = append(lines, fmt.Sprintf(set, "cook"))
		}
	}
	limited := " if " + has("limit")
	return append(lines,
		`http-request set-var-fmt(txn.counted) "%[`+param("limit")+`] %[`+param("limit.by")+`] %[var(txn.counted)]"`+limited,
		"http-request set-var(txn.counted) var(txn.counted),sha1,hex"+limited,
		"http-request set-var(txn.count) int(0)"+limited,
	)
}

// HasLimits says whether a table has rate limits.
func HasLimits(table routing.Table) bool { return len(periods(table)) > 0 }

// periods returns the periods of the limits in a table, sorted.
func periods(table routing.Table) []time.Duration {
	used := map[time.Duration]bool{}
	table.Rules(func(_ *routing.Listener, rule *routing.Rule) {
		if rule.RateLimit != nil {
			used[rule.RateLimit.Period] = true
		}
	})
	return slices.Sorted(maps.Keys(used))
}

// PeersLines are the lines of the section of peers, with the tables that rate limits count in.
func PeersLines(table routing.Table, paths ir.Paths) []string {
	lines := []string{"bind unix@" + paths.PeersSocket() + " mode 600", "server " + ir.OwnPeer}
	for i := 1; i < ir.MaxPods; i++ {
		lines = append(lines, fmt.Sprintf("server %s unix@%s", ir.PeerName(i), paths.PodsSocket()))
	}
	for _, period := range periods(table) {
		lines = append(lines, fmt.Sprintf("table %s type string len %d size 200k expire %ds store gpc_rate(1,%ds)",
			units[period], ir.PodIDSize+41, 2*period/time.Second, period/time.Second))
	}
	return lines
}
