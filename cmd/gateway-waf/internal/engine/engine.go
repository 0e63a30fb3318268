// Package engine says what the OWASP Core Rule Set thinks of a request, by Coraza.
package engine

import (
	_ "embed" // for setup
	"fmt"
	"regexp"
	"strconv"

	coreruleset "github.com/corazawaf/coraza-coreruleset/v4"
	"github.com/corazawaf/coraza/v3"
	"github.com/corazawaf/coraza/v3/experimental/plugins/plugintypes"
	"github.com/corazawaf/coraza/v3/types"
	"github.com/corazawaf/coraza/v3/types/variables"

	"gateway/internal/waf"
)

// setup comes before the Core Rule Set.
//
//go:embed setup.conf
var setup string

// Engine has the rules once, for all settings: these are set for each request.
type Engine struct{ rules coraza.WAF }

// New reads the rules, which are in the program.
func New() (*Engine, error) {
	config := coraza.NewWAFConfig().WithRootFS(coreruleset.FS).WithDirectives(setup + "\nInclude @owasp_crs/REQUEST-*.conf\n")
	rules, err := coraza.NewWAF(config)
	if err != nil {
		return nil, fmt.Errorf("failed to read the Core Rule Set: %w", err)
	}
	return &Engine{rules}, nil
}

// Request is what the backend would get.
type Request struct {
	// Version is as in HTTP/1.1. Client is the address of the client.
	Method, URI, Version, Client string
	Headers                      []Header
	Body                         []byte
}

// Header is one of a request.
type Header struct{ Name, Value string }

// Verdict is what becomes of a request.
type Verdict struct {
	// Denied says that the request has to be refused.
	Denied bool `json:"-"`
	// Score adds up how grave it is what rules found. Rules are the IDs of the first maxRules of them.
	Score int   `json:"score"`
	Rules []int `json:"rules"`
}

// maxRules is how many rules a verdict names.
const maxRules = 16

// transaction is Coraza's for one request, with what its interface does not have.
type transaction interface {
	types.Transaction
	plugintypes.TransactionState
	RemoveRuleByID(id int)
	RemoveRuleTargetByID(id int, variable variables.RuleVariable, key string, expression *regexp.Regexp)
}

// Judge returns the verdict about a request. An error means that nobody can say.
func (e *Engine) Judge(settings waf.Settings, request *Request) (Verdict, error) {
	tx, ok := e.rules.NewTransaction().(transaction)
	if !ok {
		return Verdict{}, fmt.Errorf("a transaction of Coraza lacks methods: %T", tx)
	}
	defer func() { _ = tx.Close() }() // of files that there are none of
	prepare(tx, settings)
	tx.ProcessConnection(request.Client, 0, "", 0)
	tx.ProcessURI(request.URI, request.Method, request.Version)
	for _, header := range request.Headers {
		tx.AddRequestHeader(header.Name, header.Value)
		if header.Name == "host" {
			tx.SetServerName(header.Value)
		}
	}
	denied := tx.ProcessRequestHeaders() != nil
	if !denied {
		if interruption, _, err := tx.WriteRequestBody(request.Body); err != nil {
			return Verdict{}, fmt.Errorf("failed to take the body: %w", err)
		} else if interruption != nil {
			denied = true
		}
	}
	if !denied {
		interruption, err := tx.ProcessRequestBody()
		if err != nil {
			return Verdict{}, fmt.Errorf("failed to look at the body: %w", err)
		}
		denied = interruption != nil
	}
	verdict := found(tx)
	verdict.Denied = denied
	return verdict, nil
}

// targets are where Coraza has parts of requests.
var targets = map[waf.Target]variables.RuleVariable{
	waf.Argument: variables.Args, waf.Cookie: variables.RequestCookies, waf.Header: variables.RequestHeaders,
}

// prepare sets what the Core Rule Set would set to its defaults.
func prepare(tx transaction, settings waf.Settings) {
	set := tx.Variables().TX()
	set.Set("blocking_paranoia_level", []string{strconv.Itoa(int(settings.Paranoia))})
	set.Set("inbound_anomaly_score_threshold", []string{strconv.Itoa(int(settings.Threshold))})
	for _, excluded := range settings.Excluded {
		if excluded.Target == "" {
			tx.RemoveRuleByID(int(excluded.Rule))
		} else {
			tx.RemoveRuleTargetByID(int(excluded.Rule), targets[excluded.Target], excluded.Name, nil)
		}
	}
}

// found returns what rules found. Rules that only lead to others log nothing, and one that adds up is none.
func found(tx transaction) Verdict {
	verdict := Verdict{Rules: []int{}}
	if score := tx.Variables().TX().Get("blocking_inbound_anomaly_score"); len(score) > 0 {
		verdict.Score, _ = strconv.Atoi(score[0])
	}
	for _, match := range tx.MatchedRules() {
		id := match.Rule().ID()
		logs, ok := match.(interface{ Log() bool })
		if ok && logs.Log() && id/1000 != sums && len(verdict.Rules) < maxRules {
			verdict.Rules = append(verdict.Rules, id)
		}
	}
	return verdict
}

// sums is the family of the rules that add up what others found.
const sums = 949
