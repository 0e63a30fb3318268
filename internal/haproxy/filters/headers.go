package filters

import (
	"encoding/base64"
	"fmt"
	"slices"

	"gateway/internal/model"
	"gateway/internal/routing"
)

// headers removes and adds headers. The parameter "del" has the names of request headers that are removed, "add" the
// names and values of those that are added after that. "rdel" and "radd" are for the answer.
//
// What a parameter has is a list of texts as HAProxy's req.hdrs_bin returns it, in Base64. Where HAProxy finds no room
// for a header, or the list is broken, it answers 500.
var headers = filter{
	encode: func(in Input, p *params) {
		changes := changesFor(in.Rule, in.Target)
		encodeHeaders(p, "", changes.Request)
		encodeHeaders(p, "r", changes.Response)
	},
	rules: func(Env) Rules {
		return Rules{
			Request: []string{
				"http-request del-headers-bin " + list("del"),
				"http-request add-headers-bin " + list("add"),
			},
			Response: []string{
				"http-response del-headers-bin " + list("rdel"),
				"http-response add-headers-bin " + list("radd"),
			},
		}
	},
	describe: func(rule *routing.Rule) []string { return describeHeaders(rule.Headers) },
}

// DescribeTarget returns what happens to requests for a target of a rule, besides what happens to all of the rule.
func DescribeTarget(rule *routing.Rule, target *routing.Target) []string {
	changes := target.Headers
	changes.Request = slices.DeleteFunc(slices.Clone(changes.Request), func(change routing.HeaderChange) bool {
		return slices.ContainsFunc(rule.HeaderVariables, func(v model.HeaderVariable) bool {
			return slices.Contains(deleted("", v.Name), change.Name)
		})
	})
	return append(describeRewrite(target.Rewrite), describeHeaders(changes)...)
}

// describeHeaders describes changes of headers to users.
func describeHeaders(changes routing.HeaderChanges) []string {
	var all []string
	for _, side := range []struct {
		name string
		list []routing.HeaderChange
	}{{"request", changes.Request}, {"answer's", changes.Response}} {
		for _, change := range side.list {
			verb := "add"
			switch {
			case change.Clear && len(change.Values) == 0:
				all = append(all, fmt.Sprintf("%s header %s: remove", side.name, change.Name))
				continue
			case change.Clear:
				verb = "set"
			}
			all = append(all, fmt.Sprintf("%s header %s: %s %q", side.name, change.Name, verb, change.Values))
		}
	}
	return all
}

// list returns the expression for a parameter that is a list of texts. A rule without it has none, and no header is
// changed.
func list(name string) string { return param(name) + ",ub64dec" }

// changesFor returns the header changes of a rule followed by the target's own, nil if there are none.
func changesFor(rule *routing.Rule, target *routing.Target) routing.HeaderChanges {
	if target == nil {
		return rule.Headers
	}
	return routing.HeaderChanges{
		Request:  model.Then(rule.Headers.Request, target.Headers.Request...),
		Response: model.Then(rule.Headers.Response, target.Headers.Response...),
	}
}

func encodeHeaders(p *params, side string, changes []routing.HeaderChange) {
	var del, add []byte
	for _, change := range changes {
		if change.Clear {
			for _, name := range deleted(side, change.Name) {
				del = appendText(del, name)
			}
		}
		for _, value := range change.Values {
			add = appendText(appendText(add, change.Name), value)
		}
	}
	p.setList(side+"del", del, 1)
	p.setList(side+"add", add, 2)
}

// setList sets a parameter to a list, unless it is empty. An entry has one text or two. The last one is empty.
func (p *params) setList(name string, list []byte, texts int) {
	if len(list) > 0 {
		p.set(name, base64.RawURLEncoding.EncodeToString(append(list, make([]byte, texts)...)))
	}
}

// appendText adds a text to a list: its length in the encoding of SPOE, and then its bytes.
func appendText(list []byte, text string) []byte {
	const short = 240
	n := len(text)
	if n < short {
		return append(append(list, byte(n)), text...)
	}
	list = append(list, byte(n)|short)
	for n = (n - short) >> 4; n >= 0x80; n = (n - 0x80) >> 7 {
		list = append(list, byte(n)|0x80)
	}
	return append(append(list, byte(n)), text...)
}

// deleted returns the names of the headers that are removed for one. If a request header is set whose name has another
// character than letters, digits and "-", some backends take what a client sends with "-" for the same. What a client
// sends with such a character never comes here.
func deleted(side, header string) []string {
	if plain := model.PlainHeader(header); side == "" && plain != header {
		return []string{header, plain}
	}
	return []string{header}
}
