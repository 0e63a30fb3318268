package rules

import (
	"cmp"
	"slices"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
)

func init() {
	register(appv1.RuleFilterHeaderVariables, onForwarded, func(f *appv1.RuleFilter) *appv1.HeaderVariables { return f.HeaderVariables }, (*rule).addHeaderVariables)
}

func (r *rule) addHeaderVariables(from *appv1.HeaderVariables) {
	for _, header := range from.Set {
		if !mayChange(string(header.Name)) {
			r.refuse("the header %q cannot be changed", header.Name)
		}
		name := lower(string(header.Name))
		if slices.ContainsFunc(r.HeaderVariables, func(v model.HeaderVariable) bool { return v.Name == name }) {
			r.refuse("headerVariables.set has the header %s twice: remove one of them", name)
		}
		r.HeaderVariables = append(r.HeaderVariables, model.HeaderVariable{Name: name, Variable: string(header.Variable)})
	}
	slices.SortFunc(r.HeaderVariables, func(a, b model.HeaderVariable) int { return cmp.Compare(a.Name, b.Name) })
}
