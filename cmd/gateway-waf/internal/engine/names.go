package engine

import (
	"strings"

	"github.com/corazawaf/coraza/v3/collection"
	"github.com/corazawaf/coraza/v3/experimental/plugins"
	"github.com/corazawaf/coraza/v3/experimental/plugins/plugintypes"

	"gateway/internal/waf"
)

func init() {
	plugins.RegisterOperator("setBodyApart", func(plugintypes.OperatorOptions) (plugintypes.Operator, error) { return bodySetter{}, nil })
	for rule := range waf.MaxRules {
		plugins.RegisterTransformation(waf.Apart(rule), func(text string) (string, bool, error) { return text, false, nil })
	}
}

// bodySetter is an operator that sets apart the values of the body, and finds nothing. It is for the first rule that
// may see them.
type bodySetter struct{}

func (bodySetter) Evaluate(tx plugintypes.TransactionState, _ string) bool {
	body := tx.Variables()
	setApart(body.ArgsPost())
	setApart(body.MultipartPartHeaders())
	setApart(body.MultipartFilename())
	return false
}

// setApart gives each value a name of its own in memory. Coraza remembers what transformations made of a value by where
// its name is and by its place among the values of a rule, which is another for each rule. So it took one value for
// another of the same name, and rules missed one or counted it twice, in another way each time.
func setApart(values collection.Map) {
	all, seen := values.FindAll(), map[string]bool{}
	for _, one := range all {
		seen[one.Key()] = true
	}
	if len(seen) == len(all) {
		return
	}
	for name := range seen {
		values.Remove(name)
	}
	for _, one := range all {
		// A name may be empty. What is empty by itself is all in one place.
		name := one.Key()
		values.Add(strings.Clone(name + "=")[:len(name)], one.Value())
	}
}
