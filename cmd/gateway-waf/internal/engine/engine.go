// Package engine judges requests by the OWASP Core Rule Set, with Coraza.
package engine

import (
	_ "embed" // for setup
	"fmt"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"sync"

	"github.com/corazawaf/coraza/v3"
	"github.com/corazawaf/coraza/v3/experimental"
	"github.com/corazawaf/coraza/v3/experimental/plugins/plugintypes"
	"github.com/corazawaf/coraza/v3/types"
	"github.com/corazawaf/coraza/v3/types/variables"

	"gateway/internal/waf"
)

// setup comes before the Core Rule Set.
//
//go:embed setup.conf
var setup string

// Engine has the rules for each kind of requests. Other settings are set for each request.
type Engine struct {
	// own are the rules of a user, which may look at any header by its name; "": there are none.
	own   string
	rules map[kind]func() (coraza.WAF, error)

	mu sync.Mutex
	// read are the rules that were read.
	read []coraza.WAF
}

const (
	// first sets the variables that the rules count in, and rest are the other rules.
	first = "\nInclude @owasp_crs/REQUEST-901-*.conf\n"
	rest  = "\nInclude @owasp_crs/REQUEST-90[^1]-*.conf\nInclude @owasp_crs/REQUEST-9[^0]?-*.conf\n"
)

// OnDemand has the rules of the program. It reads them once it is asked about a request.
func OnDemand() *Engine { return unread(nil) }

func unread(own []waf.Directive) *Engine {
	e := &Engine{own: text(own), rules: map[kind]func() (coraza.WAF, error){}}
	for _, k := range e.kinds() {
		e.rules[k] = sync.OnceValues(func() (coraza.WAF, error) { return e.readFor(k) })
	}
	return e
}

// New reads the built-in rules and a user's own ones. The user's rules run before all others that inspect requests:
// they may disable any of those, and add to the score.
func New(own ...waf.Directive) (*Engine, error) {
	e := unread(own)
	// Most requests are of the first kind. The others are read when they are asked for.
	_, err := e.rules[e.kinds()[0]]()
	if err == nil {
		return e, nil
	}
	fails := func(n int) bool {
		some, err := read(text(own[:n]), kind{}, "")
		if err == nil {
			closeRules(some)
		}
		return err != nil
	}
	// The error of Coraza has no line.
	if n := sort.Search(len(own), fails); n > 0 && fails(n) {
		_, err := read(text(own[:n]), kind{}, "")
		return nil, fmt.Errorf("line %d: %w", own[n-1].Line, err)
	}
	return nil, fmt.Errorf("failed to read the Core Rule Set: %w", err)
}

// kinds returns the kinds of requests. Rules of a user may set the level.
func (e *Engine) kinds() (all []kind) {
	levels := []string{"1", "2", "3", "4"}
	if e.own != "" {
		levels = []string{""}
	}
	for _, level := range levels {
		all = append(all, kind{level, true}, kind{level, false})
	}
	return all
}

// kindOf returns the kind of a request.
func (e *Engine) kindOf(settings waf.Settings, request *Request) kind {
	k := kind{plain: request.isPlain()}
	if e.own == "" {
		k.level = strconv.Itoa(int(settings.Paranoia))
	}
	return k
}

// readFor reads the rules for a kind of requests.
func (e *Engine) readFor(k kind) (coraza.WAF, error) {
	rules, err := read(setup+first+e.own+rest, k, e.own)
	if err == nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.read = append(e.read, rules)
	}
	return rules, err
}

func text(own []waf.Directive) string {
	var text strings.Builder
	for _, directive := range own {
		text.WriteString(directive.Text + "\n")
	}
	return text.String()
}

// read makes Coraza read rules, which may have come from a user.
func read(directives string, k kind, own string) (rules coraza.WAF, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	files := filesFor(k, usesCaptured.MatchString(own))
	return coraza.NewWAF(coraza.NewWAFConfig().WithRootFS(files).WithDirectives(directives))
}

// Close forgets what Coraza has kept of the rules, in case that others have the same. Requests that are being looked at
// go on.
func (e *Engine) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, rules := range e.read {
		closeRules(rules)
	}
}

func closeRules(rules coraza.WAF) {
	if closer, ok := rules.(experimental.WAFCloser); ok {
		_ = closer.Close() // which cannot fail
	}
}

// Request is the request that the backend would get.
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
	// Denied reports whether the request has to be refused.
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

// Judge returns the verdict about a request. An error means that there is no verdict.
func (e *Engine) Judge(settings waf.Settings, request *Request) (Verdict, error) {
	rules, err := e.rules[e.kindOf(settings, request)]()
	if err != nil {
		return Verdict{}, fmt.Errorf("failed to read the Core Rule Set: %w", err)
	}
	tx, ok := rules.NewTransaction().(transaction)
	if !ok {
		return Verdict{}, fmt.Errorf("a transaction of Coraza lacks methods: %T", tx)
	}
	defer func() { _ = tx.Close() }() // of files that there are none of
	prepare(tx, settings)
	tx.ProcessConnection(request.Client, 0, "", 0)
	tx.ProcessURI(request.URI, request.Method, request.Version)
	host := ""
	for _, header := range request.Headers {
		if header.Name == "host" {
			host = header.Value
			tx.SetServerName(host)
		}
		if e.own != "" || !isWritten(header, request.Client, host) {
			tx.AddRequestHeader(header.Name, header.Value)
		}
	}
	setApart(tx.Variables().ArgsGet())
	setApart(tx.Variables().RequestCookies())
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
		number, _ := strconv.Atoi(score[0])
		verdict.Score = max(number, 0) // rules of a user may take away
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
