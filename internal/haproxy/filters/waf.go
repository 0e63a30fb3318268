package filters

import (
	_ "embed" // for wafProgram
	"fmt"
	"strconv"
	"strings"

	"gateway/internal/haproxy/ir"
	"gateway/internal/routing"
	"gateway/internal/waf"
)

func init() { after(&auth, &firewall) }

// wafProgram asks gateway-waf about requests. It contains no user input.
//
//go:embed waf.lua
var wafProgram []byte

const (
	// smallBody is how much of a body HAProxy's buffer always holds beside the headers. mostLargeBodies is how many
	// requests with longer ones are under way at a time, and mostOfClient how many of one client: HAProxy counts a
	// request until its answer ends, also once the backend has the body. largeBodies is the table that counts them.
	smallBody       = 8192
	mostLargeBodies = 256
	mostOfClient    = 64
	largeBodies     = "large-bodies"
)

// firewall refuses requests that look like attacks. The parameter "waf" is the question for gateway-waf, "waf.body" the
// most bytes of a body.
//
// It comes after all other guards, because it takes most time.
//
// gateway-waf gets the request that the backend gets, but for what an administrator changes afterwards, with its whole
// body. The end of the message tells that the body is whole, as in body.
var firewall = filter{
	guard: "WAF", param: "waf", mayStay: true,
	isUsed:      func(rule *routing.Rule) bool { return rule.WAF != nil },
	needsClient: func(rule *routing.Rule) bool { return rule.WAF != nil },
	encode: func(in Input, p *params) {
		if in.Rule.WAF == nil {
			return
		}
		p.set("waf", in.Rule.WAF.Settings.Question())
		p.set("waf.body", strconv.FormatInt(in.Rule.WAF.MaxBody, 10))
	},
	rules: firewallRules,
	add: func(env Env, config *ir.Config) {
		addExchange(env, config)
		sections := []ir.Section{
			spare(ir.ReloadSettings, "global # large bodies", fmt.Sprintf("tune.bufsize.large %d", waf.MaxBody+64<<10), moreCounters),
			spare(ir.ReloadSettings, "backend "+largeBodies+" from common", teamTable),
		}
		addProgram(env, config, "questions to gateway-waf", ir.WAFFile, wafProgram, " "+env.Paths.WAFSocket, sections...)
	},
	describe: func(rule *routing.Rule) []string {
		if rule.WAF == nil {
			return nil
		}
		settings := rule.WAF.Settings
		text := fmt.Sprintf("WAF: a score below %d of the Core Rule Set at paranoia level %d", settings.Threshold, settings.Paranoia)
		if len(settings.Excluded) > 0 {
			text += ", without " + excludedText(settings.Excluded)
		}
		if settings.Rules != "" {
			text += ", with the rules of ConfigMap " + settings.Rules
		}
		text += ", else 403"
		return []string{text, fmt.Sprintf("WAF: bodies of up to %d bytes, else 413", rule.WAF.MaxBody)}
	},
}

// WAFLog is the expression for what rules found, as JSON.
const WAFLog = `var(txn.waf_log,{})`

// HasWAF reports whether some rule has a WAF.
func HasWAF(env Env) bool { return firewall.isNeeded(env) }

func firewallRules(env Env) Rules {
	const isWhole = "{ internal.htx.has_eom }"
	asked := " if " + has("waf")
	if env.isShadow {
		asked += " !" + isRefused
	}
	tooLong := func(condition string) []string {
		return env.refuse(413, "the body of the request is too long", "", has("waf")+" "+condition)
	}
	var lines []string
	add := func(all ...string) { lines = append(lines, all...) }
	add(teamLines(env, has("waf"))...)
	add("http-request set-var(txn.waf_body) " + param("waf.body") + ",add(0) if " + has("waf"))
	add(tooLong("{ req.body_size,sub(txn.waf_body) gt 0 }")...)
	add(
		"http-request wait-for-body time 10s at-least "+strconv.Itoa(smallBody+1)+asked,
		fmt.Sprintf("http-request track-sc%d str(all) table %s%s !%s", wafCounter, largeBodies, asked, isWhole),
		fmt.Sprintf("http-request track-sc%d var(txn.client),ipmask(32,64) table %s%s !%s", wafCounter+1, largeBodies, asked, isWhole),
		fmt.Sprintf("http-request track-sc%d var(%s)%s table %s%s !%s %s", wafCounter+2, team, byTeam, largeBodies, asked, isWhole, hasTeam),
	)
	tooMany := fmt.Sprintf("%s !%s { sc_conn_cur(%%d) gt %%d }", has("waf"), isWhole)
	add(env.refuse(503, "too many long bodies are being looked at", "", fmt.Sprintf(tooMany, wafCounter, mostLargeBodies))...)
	add(env.refuse(503, "too many long bodies are being looked at", "", fmt.Sprintf(tooMany, wafCounter+1, mostOfClient))...)
	add(env.refuse(503, "too many long bodies are being looked at", "", fmt.Sprintf(tooMany, wafCounter+2, env.Table.Shares.WAFBodies))...)
	add(fmt.Sprintf("http-request wait-for-body time 10s at-least %d use-large-buffer%s !%s", waf.MaxBody+1, asked, isWhole))
	add(tooLong("{ req.body_len,sub(txn.waf_body) gt 0 }")...)
	add(tooLong("!" + isWhole)...)
	add(
		"http-request unset-var(txn.authorized) if "+has("waf"),
		"http-request set-var(txn.waf) "+param("waf")+asked,
		"http-request set-var(txn.waf_client) var(txn.client)"+asked,
		"http-request lua.waf"+asked,
	)
	add(env.refuse(403, "the request looks like an attack", "", has("waf")+" { var(txn.waf_denied) -m bool }")...)
	add(env.refuse(503, cannotDecide, "", has("waf")+" !{ var(txn.authorized) -m bool } !{ var(txn.waf_denied) -m bool }")...)
	return Rules{Request: lines}
}

// excludedText tells users what rules do not look at.
func excludedText(excluded []waf.Exclusion) string {
	texts := make([]string, len(excluded))
	for i, one := range excluded {
		texts[i] = "rule " + strconv.Itoa(int(one.Rule))
		if one.Target != "" {
			texts[i] += " for the " + strings.ToLower(string(one.Target)) + " " + one.Name
		}
	}
	return strings.Join(texts, " and ")
}
