package rules

import (
	"regexp"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
	"gateway/internal/regex"
)

func init() {
	register(appv1.RuleFilterPathRegexRewrite, onRedirects, func(f *appv1.RuleFilter) *appv1.PathRegexRewrite { return f.PathRegexRewrite }, (*rule).addPathRegexRewrite)
}

// substitutions are texts of a URL's path and groups.
var substitutions = regexp.MustCompile(`^([-A-Za-z0-9._~!&'()*+,;=:@/]|%[0-9A-Fa-f]{2}|\\[0-9])+$`)

func (r *rule) addPathRegexRewrite(from *appv1.PathRegexRewrite) {
	if !substitutions.MatchString(from.Substitution) {
		r.refuse(`pathRegexRewrite.substitution %q may have only characters of a path, and \1 to \9 for groups`, from.Substitution)
	}
	if _, err := regex.NewReplacement(from.Pattern, from.Substitution); err != nil {
		r.refuse("pathRegexRewrite.%v", err)
	}
	r.PathRegex = &model.PathRegex{Pattern: from.Pattern, Substitution: from.Substitution}
}
