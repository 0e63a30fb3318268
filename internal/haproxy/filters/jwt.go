package filters

import (
	"crypto/sha256"
	_ "embed" // for JWTProgram
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"gateway/internal/haproxy/ir"
	"gateway/internal/model"
	"gateway/internal/regex"
	"gateway/internal/routing"
)

// jwtClaims are the claims of tokens.
var jwtClaims = claimUse{"jwt", func(rule *routing.Rule) (headers []model.ClaimHeader, required []model.RequiredClaim) {
	if rule.JWT == nil {
		return nil, nil
	}
	return rule.JWT.Headers, rule.JWT.Claims
}}

// jwt answers 401 to requests without a valid token. The parameter "jwt.skew" is in seconds. "jwt.scopes" names a list
// of regular expressions for the scopes of a token, and "jwt.scope" are these as a text. "jwt.PLACE.NAME" is there for
// each place where a token may be. claimUse has those for claims.
//
// An issuer has parameters of its own: "jwt.iss" is its name, "jwt.aud" names a list of regular expressions for the
// audience of a token, and "jwt.keys" a list of keys in keys.map. With "jwt.from", keysets.map names it, so that new
// keys do not change the rules that need them. Where "jwt" is oneIssuer, they are beside the others. Where a rule has
// several issuers, "jwt" names their list in keys.map, which has these parameters by the hash of the name.
//
// The sender writes the header of a token, and its claims as long as no signature is verified. They only choose one of
// the issuers of the rule, and one of its keys, and the key decides the algorithm. Claims are checked once the
// signature is known to be the issuer's, and iss is the first of them.
//
// HAProxy reads keys when it starts, so a new key takes a reload. It could be told of certificates while it runs, but
// does not find them while another thread looks for one: some valid tokens would be refused.
var jwt = filter{
	guard: "JWT", param: "jwt", mayStay: true,
	isUsed: func(rule *routing.Rule) bool { return rule.JWT != nil },
	names: func(rule *routing.Rule) []string {
		var names []string
		if len(rule.JWT.Issuers) > 1 {
			names = append(names, "issuers")
		}
		for i := range rule.JWT.Issuers {
			issuer := &rule.JWT.Issuers[i]
			names = append(names, fmt.Sprintf("%q", issuer.KeysFrom))
			for _, key := range issuer.Keys {
				names = append(names, keyFile(key))
			}
		}
		for _, place := range rule.JWT.From {
			names = append(names, "token in "+tokenParam(place))
		}
		return append(names, jwtClaims.names(rule)...)
	},
	encode: func(in Input, p *params) {
		jwt := in.Rule.JWT
		if len(jwt.Issuers) == 1 {
			p.set("jwt", oneIssuer)
			encodeIssuer(in, &jwt.Issuers[0], p)
		} else {
			p.set("jwt", in.Content(ir.KeysFile, issuerEntries(in, jwt.Issuers)))
		}
		for _, place := range jwt.From {
			p.set(tokenParam(place), "1")
		}
		p.set("jwt.skew", strconv.Itoa(int(jwt.Skew/time.Second)))
		if len(jwt.Scopes) > 0 {
			p.set("jwt.scopes", in.List(ir.List{Expressions: []string{allOf(jwt.Scopes)}}))
			p.set("jwt.scope", strings.Join(jwt.Scopes, " "))
		}
		jwtClaims.encode(in, p)
	},
	rules: func(env Env) Rules {
		remove, add := jwtClaims.headerRules(env.Rules)
		if env.isShadow {
			// Claims of a token that does not count are dropped.
			add = append([]string{"http-request unset-var(txn.jwt_text) if " + isRefused}, add...)
		}
		return Rules{Request: slices.Concat(remove, tokenRules(env), jwtClaims.requiredRules(env, ` hdr www-authenticate "Bearer error=\"insufficient_scope\""`), add)}
	},
	add: func(env Env, config *ir.Config) {
		addProgram(env, config, "claims of tokens", ir.ClaimsFile, claimsProgram, "")
		addKeys(env, config)
	},
	describe: func(rule *routing.Rule) []string {
		jwt := rule.JWT
		scopes, issuers := "", make([]string, len(jwt.Issuers))
		for i := range jwt.Issuers {
			issuers[i] = jwt.Issuers[i].Name + " for " + strings.Join(jwt.Issuers[i].Audiences, " or ")
		}
		if len(jwt.Scopes) > 0 {
			scopes = "; with " + strings.Join(jwt.Scopes, " and ") + " as scopes, else 403"
		}
		for _, required := range jwt.Claims {
			scopes += "; with " + required.Claim + " of " + strings.Join(required.Values, " or ") + ", else 403"
		}
		return []string{fmt.Sprintf("JWT: a token of %s, else 401%s", strings.Join(issuers, ", or of "), scopes)}
	},
}

// tokenRules let only requests with a valid token pass.
func tokenRules(env Env) []string {
	paths := env.Paths
	scoped := " if " + has("jwt.scopes")
	conditions := ",map_regm(" + paths.Map(ir.ConditionsFile) + ") -m found }"
	refuse := func(status int32, reason, challenge, condition string) []string {
		return env.refuse(status, reason, ` hdr www-authenticate "Bearer`+challenge+`"`, has("jwt")+" "+condition)
	}
	rules := slices.Concat(sentRules(env), []string{
		"http-request set-var(txn.jwt) var(txn.jwt_sent) if { var(txn.jwt_sent) -m reg '^[A-Za-z0-9_-]++[.][A-Za-z0-9_-]++[.][A-Za-z0-9_-]++$' }",
	}, issuerRules(env), []string{
		"http-request set-var(txn.jwt_keys) " + ofIssuer("jwt.keys"),
		"http-request set-var(txn.jwt_keys) " + ofIssuer("jwt.from") + ",url_dec,map_str(" + paths.Map(ir.KeySetsFile) + "," + noKeys + ") if { " + ofIssuer("jwt.from") + " -m found }",
	}, env.refuse(503, "the keys of tokens are not known", "", has("jwt")+" { var(txn.jwt_keys) -m str "+noKeys+" }"), []string{
		"http-request set-var(txn.jwt_kid) var(txn.jwt),jwt_header_query($.kid),sha2(256),hex",
		"http-request set-var(txn.jwt_key) var(txn.jwt_keys),concat(/,txn.jwt_kid),map_str(" + paths.Map(ir.KeysFile) + ") if { var(txn.jwt_kid) -m found }",
		"http-request set-var(txn.jwt_alg) var(txn.jwt_key),field(1,/)",
		`http-request set-var-fmt(txn.jwt_file) "` + paths.Map("") + `%[var(txn.jwt_key),field(2,/)]" if { var(txn.jwt_key) -m found }`,
		"http-request set-var(txn.jwt_verified) var(txn.jwt),jwt_verify(txn.jwt_alg,txn.jwt_file) if { var(txn.jwt_key) -m found }" +
			" { var(txn.jwt),jwt_header_query($.alg),strcmp(txn.jwt_alg) eq 0 } !{ var(txn.jwt),jwt_header_query -m reg '" + critical + "' }",
	})
	rules = slices.Concat(rules, readRules(signed), []string{
		"http-request set-var(txn.jwt_iss) " + ofIssuer("jwt.iss") + ",url_dec" + signed,
		"http-request set-var(txn.jwt_skew) " + param("jwt.skew") + ",add(0)" + signed,
		"http-request set-var(txn.jwt_now) date" + signed,
	}, timeRules("exp", "floor", signed), timeRules("nbf", "ceiling", signed), listRules("aud", "aud", claim("aud"), signed, false), []string{
		`http-request set-var-fmt(txn.jwt_aud) "%[` + ofIssuer("jwt.aud") + `]\n%[var(txn.jwt_aud)]" if { var(txn.jwt_aud) -m found }`,
		"http-request set-var(txn.jwt_valid) bool(true)" + signed +
			" { " + claim("iss") + ",strcmp(txn.jwt_iss) eq 0 } { var(txn.jwt_aud)" + conditions + " { var(txn.jwt_exp),add(txn.jwt_skew),sub(txn.jwt_now) gt 0 }",
		"http-request unset-var(txn.jwt_valid) if { var(txn.jwt_nbf_text) -m found } !{ var(txn.jwt_nbf),sub(txn.jwt_skew),sub(txn.jwt_now) le 0 }",
	}, refuse(401, "a token is required", "", "!{ var(txn.jwt_sent) -m found }"),
		refuse(401, "the token is not valid", ` error=\"invalid_token\"`, "!{ var(txn.jwt_valid) -m bool }"), listRules("scope", "scope", claim("scope"), scoped, true), listRules("scp", "scp", claim("scp"), scoped, true))
	rules = append(rules, `http-request set-var-fmt(txn.jwt_scopes) "%[`+param("jwt.scopes")+`]\n%[var(txn.jwt_scope)]%[var(txn.jwt_scp)]"`+scoped)
	return append(rules, refuse(403, "the token lacks a scope", ` error=\"insufficient_scope\", scope=\"%[`+text("jwt.scope")+`]\"`,
		has("jwt.scopes")+" !{ var(txn.jwt_scopes)"+conditions)...)
}

// oneIssuer is in place of the name of a list of issuers, for rules with one.
const oneIssuer = "1"

// ofIssuer returns the expression for a parameter of the issuer of a token.
func ofIssuer(name string) string { return "var(txn.jwt_issuer),param(" + name + ")" }

func encodeIssuer(in Input, issuer *model.Issuer, p *params) {
	if from := keySource(issuer.KeysFrom); from != "" {
		p.set("jwt.from", from)
		p.set("jwt.keys", noKeys)
	} else {
		p.set("jwt.keys", in.Content(ir.KeysFile, func() []ir.MapEntry { return keyEntries(issuer.Keys) }))
	}
	p.set("jwt.iss", issuer.Name)
	p.set("jwt.aud", in.List(ir.List{Expressions: anyOf(issuer.Audiences)}))
}

// issuerEntries returns the entries for issuers: "/" and the hash of the name, with the parameters.
func issuerEntries(in Input, issuers []model.Issuer) func() []ir.MapEntry {
	entries := make([]ir.MapEntry, len(issuers))
	for i := range issuers {
		var p params
		encodeIssuer(in, &issuers[i], &p)
		entries[i] = ir.MapEntry{Key: hashKey(issuers[i].Name), Value: strings.Join(p, "&")}
	}
	return func() []ir.MapEntry { return entries }
}

// issuerRules set txn.jwt_issuer to the parameters of the issuer that a token names, unless there is only one. HAProxy
// does not read "\/", which some issuers write for a slash.
func issuerRules(env Env) []string {
	rules := []string{"http-request set-var(txn.jwt_issuer) var(txn.filters) if " + is("jwt", oneIssuer)}
	if !slices.ContainsFunc(env.Rules, func(rule *routing.Rule) bool { return rule.JWT != nil && len(rule.JWT.Issuers) > 1 }) {
		return rules
	}
	return append(rules,
		"http-request set-var(txn.jwt_issuer) "+param("jwt")+" if "+has("jwt")+" !"+is("jwt", oneIssuer),
		"http-request set-var(txn.jwt_named) "+inQuotes(`var(txn.jwt),jwt_payload_query,regsub('\x5C/','/',g),json_query('$.iss'),sha2(256),hex`)+" if "+has("jwt")+" !"+is("jwt", oneIssuer),
		"http-request set-var(txn.jwt_issuer) var(txn.jwt_issuer),concat(/,txn.jwt_named),map_str("+env.Paths.Map(ir.KeysFile)+",-) if "+has("jwt")+" !"+is("jwt", oneIssuer),
	)
}

func tokenParam(place model.CredentialPlace) string { return placeParam("jwt", place) }

func tokenPlaces(rule *routing.Rule) model.CredentialPlaces {
	if rule.JWT == nil {
		return nil
	}
	return rule.JWT.From
}

// sentRules set txn.jwt_sent to the token of a request. In Authorization, one without the scheme is none.
func sentRules(env Env) []string {
	return findLines("txn.jwt_sent", `,regsub('^(?!(?i:bearer) )','no token: '),regsub('^(?i:bearer) +',)`, placesOf(env.Rules, "jwt", tokenPlaces))
}

// critical finds the member "crit" in the header of a token, of any type, and what may hide it. HAProxy finds no
// object.
const critical = `\x5C|"crit"[ \t\r\n]*:`

// noKeys is in place of the name of keys that are not known.
const noKeys = "none"

// signed ends a rule that is for tokens of the issuer only.
const signed = " if { var(txn.jwt_verified) -m int 1 }"

// keySource returns the key in keysets.map of where keys are; "" if they are in the rule.
func keySource(source routing.KeySource) string {
	switch {
	case source.ConfigMap != "":
		return "configmap/" + source.ConfigMap
	case source.URL != "":
		return "url/" + ir.ContentName(fmt.Sprintf("%s %s %s", source.URL, source.Authorities, source.Interval))
	}
	return ""
}

// keyEntries returns the entries for keys: "/" and the hash of the ID, with the algorithm and the file. HAProxy hashes
// the ID in a token, so any characters are safe there.
func keyEntries(keys []routing.JWTKey) []ir.MapEntry {
	entries := make([]ir.MapEntry, len(keys))
	for i, key := range keys {
		entries[i] = ir.MapEntry{Key: hashKey(key.ID), Value: key.Algorithm + "/" + keyFile(key)}
	}
	return entries
}

// hashKey returns the key of an entry for something that tokens name.
func hashKey(name string) string { return fmt.Sprintf("/%X", sha256.Sum256([]byte(name))) }

// keyFile returns the name of the file of a key, which identifies the key.
func keyFile(key routing.JWTKey) string {
	return "jwt-" + ir.ContentName(key.PEM) + ".pem"
}

// addKeys adds the keys that tokens are signed with, and what has HAProxy read them. It does so for each use of a file,
// whether or not a request gets there.
func addKeys(env Env, config *ir.Config) {
	files := map[string][]byte{}
	add := func(keys []routing.JWTKey) {
		for _, key := range keys {
			files[keyFile(key)] = []byte(key.PEM)
		}
	}
	for _, rule := range env.Rules {
		if rule.JWT == nil {
			continue
		}
		for i := range rule.JWT.Issuers {
			issuer := &rule.JWT.Issuers[i]
			add(issuer.Keys)
			if keys := env.KeySets[issuer.KeysFrom]; len(keys) > 0 {
				add(keys)
				name, content := ir.NewContent(ir.KeysFile, keyEntries(keys))
				config.Contents = config.Contents.With(ir.ContentKey(ir.KeysFile, name), content)
				config.Maps[ir.KeySetsFile] = config.Maps[ir.KeySetsFile].With(keySource(issuer.KeysFrom), name)
			}
		}
	}
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		config.Files[name] = files[name]
		lines = append(lines, "http-request set-var(txn.jwt_verified) str(),jwt_verify(RS256,"+env.Paths.Map(name)+")")
	}
	if len(lines) > 0 {
		config.Sections = append(config.Sections, ir.Section{
			Header: "backend " + ir.KeysBackend + " from common", Reason: ir.ReloadKeys, MayStay: true, Lines: ir.Lines(ir.ReloadKeys, lines...),
		})
	}
}

// anyOf returns the list of expressions that finds one of the texts in a list of JSON.
func anyOf(texts []string) []string {
	expressions := make([]string, len(texts))
	for i, text := range texts {
		expressions[i] = `\n` + inList(text)
	}
	return expressions
}

// allOf returns the expression that finds all texts there.
func allOf(texts []string) string {
	expression := `\n`
	for _, text := range texts {
		expression += "(?=" + inList(text) + ")"
	}
	return expression
}

// inList finds a text in a list of JSON. Within a text, a quote comes after a backslash, so the first one begins a
// text, or ends one that a comma or "]" follows.
func inList(text string) string {
	return `(?s:.*)[\x5B,\x09\x0A\x0D\x20]"` + regex.Quote(text) + `"`
}
