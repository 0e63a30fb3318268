package agent

import (
	appv1 "gateway/api/app/v1"
	"gateway/internal/waf"
)

// ruleSetProblems returns the problems of the rules of ConfigMaps, as gateway-waf finds them in the same files. content
// returns the file of one, or why there is none.
func ruleSetProblems(configMaps []string, content func(configMap string) ([]byte, string)) map[string]string {
	problems, contents := map[string]string{}, map[string]string{}
	for _, name := range configMaps {
		found, problem := content(name)
		if problems[name] = problem; problem == "" {
			contents[name] = string(found)
		}
	}
	for name, set := range waf.ParseRuleSets(contents) {
		problems[name] = set.Problem
	}
	return problems
}

// ruleSet notes the problems of the rules of a ConfigMap. Only gateway-waf knows whether there were good ones.
func (c *collector) ruleSet(configMap string) {
	problem, ok := c.files.ruleSets[configMap]
	switch {
	case !ok:
		c.unknown("", kindConfigMap, configMap)
	case problem != "":
		c.problem("", kindConfigMap, configMap, problem+": the rules that were there before go on; without any, requests get 503")
		c.problems[len(c.problems)-1].Reason = appv1.ProblemInvalidRulesRef
	}
}
