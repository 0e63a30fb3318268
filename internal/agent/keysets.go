package agent

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	appv1 "gateway/api/app/v1"
	"gateway/internal/jwks"
	"gateway/internal/keyset"
	"gateway/internal/model"
	"gateway/internal/proxypod"
	"gateway/internal/routing"
	"gateway/internal/tree"
)

// keySetFile is the content of a ConfigMap's jwks.
type keySetFile struct {
	// problem is why it cannot be used; "" if it can.
	problem string
	// keys are those that it held last. There are none of a file that is gone.
	keys []routing.JWTKey
}

// readKeySet reads the keys of a ConfigMap. It keeps the earlier ones if the new ones cannot be used.
func readKeySet(dir, configMap string, before keySetFile) keySetFile {
	content, problem := readMounted(dir, configMap, proxypod.KeySetFile)
	if problem != "" {
		return keySetFile{problem: problem}
	}
	keys, err := keyset.Parse(string(content))
	if err != nil {
		return keySetFile{problem: proxypod.KeySetFile + " " + err.Error(), keys: before.keys}
	}
	return keySetFile{keys: keys}
}

// wantKeys starts to fetch the keys whose URLs a table names.
func (in *inputs) wantKeys(ctx context.Context, fetcher *jwks.Fetcher, files *mounted) {
	wanted := map[model.KeySource]string{}
	for rules := range in.table.Uses.Keys.Values() {
		if from := rules.First().From; from.URL != "" {
			wanted[from], _ = files.authoritiesOf(from)
		}
	}
	fetcher.Want(ctx, wanted)
}

// authoritiesOf returns the CA certificates for the server of a source, or the name of a ConfigMap without any.
func (m *mounted) authoritiesOf(from model.KeySource) (authorities, without string) {
	for name := range strings.SplitSeq(from.Authorities, ",") {
		file := m.authorities[name]
		if len(file.pem) == 0 {
			return "", name
		}
		authorities += string(file.pem)
	}
	return authorities, ""
}

// keySet looks up the keys for the tokens of rules.
func (c *collector) keySet(rules tree.Map[routing.KeyUse]) {
	first := rules.First()
	from := first.From
	keys, of, problem := c.keysOf(from)
	if before := c.before.keySets[from]; areNew(keys, before) && c.keysWait(rules) {
		keys = before
	}
	consequence := "are answered with 503"
	if len(keys) > 0 {
		c.keySets[from] = keys
		consequence = "need the keys that were there before"
	}
	if problem != "" {
		of.Namespace = c.namespace
		others := ""
		if rules.Len() > 1 {
			others = fmt.Sprintf(" and %d more", rules.Len()-1)
		}
		c.problems = append(c.problems, appv1.ProxyProblem{
			Origin: of, Reason: appv1.ProblemInvalidKeysRef,
			Message: fmt.Sprintf("requests for rules[%d] of route %q%s %s: %s", first.Index, first.Route, others, consequence, problem),
		})
	}
}

// keysOf returns the keys of a source, which object has them, and its problem.
func (c *collector) keysOf(from model.KeySource) (keys []routing.JWTKey, of appv1.ProblemOrigin, problem string) {
	of = appv1.ProblemOrigin{Kind: kindConfigMap, Name: from.ConfigMap}
	named := func(problem, configMap string) string {
		return kindConfigMap + " " + c.namespace + "/" + configMap + ": " + problem
	}
	if from.URL == "" {
		file, ok := c.files.keySets[from.ConfigMap]
		switch {
		case !ok:
			c.unknown("", kindConfigMap, from.ConfigMap)
		case file.problem != "":
			problem = named(file.problem, from.ConfigMap)
		}
		return file.keys, of, problem
	}
	set := c.files.fetched[from]
	problem = set.Problem
	if _, without := c.files.authoritiesOf(from); without != "" {
		file, ok := c.files.authorities[without]
		if !ok {
			c.unknown("", kindConfigMap, without)
			return set.Keys, of, ""
		}
		problem = named(cmp.Or(file.problem, "it has no certificates"), without)
	}
	if problem != "" {
		problem = "no keys come from " + from.URL + ": " + problem
	}
	return set.Keys, appv1.ProblemOrigin{Kind: kindURL, Name: from.URL}, problem
}
