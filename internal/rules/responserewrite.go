package rules

import (
	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
)

func init() {
	register(appv1.RuleFilterResponseRewrite, onForwarded, func(f *appv1.RuleFilter) *appv1.ResponseRewrite { return f.ResponseRewrite }, (*rule).addResponseRewrite)
}

func (r *rule) addResponseRewrite(from *appv1.ResponseRewrite) {
	r.Answers = &model.AnswerRewrite{}
	if location := from.Location; location != nil {
		r.Answers.Location = model.Replacement{From: string(location.From), To: string(location.To)}
	}
	if domain := from.CookieDomain; domain != nil {
		r.Answers.CookieDomain = model.Replacement{From: string(domain.From), To: string(domain.To)}
	}
	if path := from.CookiePath; path != nil {
		r.Answers.CookiePath = model.Replacement{From: string(path.From), To: string(path.To)}
	}
}
