package filters

import (
	_ "embed" // for claimsProgram
	"strings"

	"gateway/internal/haproxy/ir"
	"gateway/internal/regex"
)

// claimsProgram reads the parts of tokens that HAProxy's converters cannot read. It contains no user input.
//
//go:embed claims.lua
var claimsProgram []byte

// HAProxy's converter json_query rounds numbers, and knows few escapes. So txn.jwt_text is what a token says, in JSON
// that it reads without loss: each number and boolean that is a member of an object is a string, after a mark.
// claimsProgram has replaced the other escapes. A program costs more than all converters together, so most tokens do
// not get there.
//
// The claims are in a list, with an end behind: json_query only reads as far as it has to, and nothing behind what is
// too deep for it. Who finds the end has read all.
const (
	// These expressions take all there is, so PCRE never goes back.
	jsonSpace  = `[ \t\r\n]*+`
	jsonString = `\x22(?:[^\x00-\x1F\x22\x5C]++|\x5C(?:[\x22\x5Cbfnrt]|u[0-9A-Fa-f]{4}))*+\x22`
	jsonNumber = `-?(?:0|[1-9][0-9]*+)(?:[.][0-9]++)?+(?:[Ee][+-]?[0-9]++)?+`

	// mark is in no string: JSON has it escaped, and claimsProgram refuses that.
	mark = `\x01`
	// unread is what claimsProgram has to read.
	unread = `[\x01\x5C]`
	// unmarked is a number or boolean, after all that comes before it.
	unmarked = `\G((?:[^\x22:]++|\x22(?:[^\x22\x5C]++|\x5C.)*+\x22|:(?!` + jsonSpace + `[-0-9tf]))*+:` + jsonSpace + `)` +
		`(true|false|-?[0-9][-+.0-9Ee]*+)`
	// marked is one with its mark. In a list, it has quotes.
	marked = `\x22?` + mark + `([^\x22]*+)\x22?`
	// wellFormed is such a list, in which the times are numbers.
	wellFormed = `(?(DEFINE)` + grammar +
		`(?<t>\x22(?:exp|nbf)\x22(?&w):(?&w)\x22` + mark + `(?&n)\x22(?&w)|(?!\x22(?:exp|nbf)\x22)(?&m)))` +
		`\A\[(?&w)\{(?&w)(?:(?&t)(?:,(?&w)(?&t))*+)?+\}(?&w),\x22end\x22\]\z`
	// grammar are groups for the parts of JSON, of which m is a member of an object.
	grammar = `(?<w>` + jsonSpace + `)(?<s>` + jsonString + `)(?<n>` + jsonNumber + `)` +
		`(?<v>(?&s)|\x22` + mark + `(?:true|false|(?&n))\x22|(?&n)|true|false|null|` +
		`\[(?&w)(?:(?&v)(?&w)(?:,(?&w)(?&v)(?&w))*+)?+\]|\{(?&w)(?:(?&m)(?:,(?&w)(?&m))*+)?+\})` +
		`(?<m>(?&s)(?&w):(?&w)(?&v)(?&w))`
	// texts is a list of strings, in JSON.
	texts = `^\[(?:` + jsonSpace + jsonString + jsonSpace + `(?:,(?!` + jsonSpace + `\])|(?=\])))++\]`
)

// readRules set txn.jwt_text for tokens that the issuer signed. The others, and those that cannot be read, end as not
// verified.
func readRules(signed string) []string {
	return []string{
		"http-request set-var(txn.jwt_payload) var(txn.jwt),jwt_payload_query" + signed,
		"http-request set-var(txn.jwt_text) var(txn.jwt_payload)" + signed + " !{ var(txn.jwt_payload) -m reg '" + unread + "' }",
		"http-request set-var(txn.jwt_text) var(txn.jwt_payload),lua.plain" + signed + " { var(txn.jwt_payload) -m reg '" + unread + "' }",
		`http-request set-var-fmt(txn.jwt_text) "[%[var(txn.jwt_text)],\"end\"]"` + signed,
		`http-request set-var(txn.jwt_text) ` + inQuotes(`var(txn.jwt_text),regsub('`+unmarked+`','\1\x22`+mark+`\2\x22',g)`) + signed,
		"http-request unset-var(txn.jwt_verified)" + signed + " !{ var(txn.jwt_text) -m reg '" + wellFormed + "' }",
		"http-request unset-var(txn.jwt_verified)" + signed + " !{ var(txn.jwt_text),json_query($[1]) -m found }",
	}
}

// timeRules set the variable of a claim to a time in seconds, and that with "_text" to its text. A time that is not
// whole, or has many digits, is rounded by a converter.
func timeRules(name, converter, signed string) []string {
	text := "var(txn.jwt_" + name + "_text)"
	set, inexact := "http-request set-var(txn.jwt_"+name+") "+text, "{ "+text+" -m reg '[.Ee]|.{16}' }"
	return []string{
		"http-request set-var(txn.jwt_" + name + "_text) " + claim(name) + ",bytes(1)" + signed,
		set + ",add(0)" + signed + " { " + text + " -m found } !" + inexact,
		set + ",lua." + converter + signed + " " + inexact,
	}
}

// listRules set a variable to a list as JSON writes it, by the claim at a path, also where the claim is a text: of one,
// or of several with spaces between. value is the expression for the claim. They are for requests that are limited so.
// A text with quotes could be taken for several, and counts as none. So does a list of something else.
func listRules(name, path, value, limited string, isSplit bool) []string {
	variable := "txn.jwt_" + name
	isText := limited + " { var(txn.jwt_words) -m found }"
	rules := []string{
		"http-request set-var(txn.jwt_words) " + inQuotes(value) + limited,
		"http-request set-var(" + variable + ") var(txn.jwt_words)" + isText + " { var(txn.jwt_words) -m reg '" + texts + "' } { " + inQuotes(claim(path+"[0]")) + " -m found }",
		"http-request unset-var(txn.jwt_words) if { var(" + variable + ") -m found } or { var(txn.jwt_words) -m sub \\x22 }",
	}
	if isSplit {
		rules = append(rules, `http-request set-var(txn.jwt_words) "var(txn.jwt_words),regsub(' ','\",\"',g)"`+isText)
	}
	return append(rules,
		`http-request set-var-fmt(`+variable+`) "[\"%[var(txn.jwt_words)]\"]"`+isText,
		"http-request unset-var(txn.jwt_words)",
	)
}

// claim returns the expression for a claim. It finds no objects. A number or boolean has its mark.
func claim(path string) string { return "var(txn.jwt_text),json_query('$[0]." + path + "')" }

// claimText returns the expression for the claim at a path, as its issuer wrote it.
func claimText(path string) string { return claim(jsonPath(path)) + `,regsub('` + marked + `','\1',g)` }

// ClaimNames returns the names in the path of a claim.
func ClaimNames(path string) []string {
	names := strings.Split(strings.ReplaceAll(path, `\.`, "!"), ".")
	for i := range names {
		names[i] = strings.ReplaceAll(names[i], "!", ".")
	}
	return names
}

// jsonPath returns a path of names as json_query reads it.
func jsonPath(path string) string {
	names := ClaimNames(path)
	for i := range names {
		names[i] = strings.ReplaceAll(ir.Quote(names[i], ir.InName), ".", `\.`)
	}
	return strings.Join(names, ".")
}

// lacks returns the expression for a txn.jwt_text whose claim at a path of names is not there, null, or an empty list.
func lacks(names []string) string {
	return `(?(DEFINE)` + grammar + `)\A\[(?&w)` + lacksMember(names)
}

func lacksMember(names []string) string {
	key := `\x22` + regex.Quote(names[0]) + `\x22(?&w):(?&w)`
	rest := `null|\[(?&w)\]`
	if len(names) > 1 {
		rest = `[^{]|` + lacksMember(names[1:])
	}
	return `\{(?&w)(?:(?!` + key + `)(?&m)(?:,(?&w)|(?=\})))*+(?:\}|` + key + `(?:` + rest + `))`
}

// claimWord returns the path of a claim as a word for a parameter.
func claimWord(path string) string { return ir.Quote(strings.ReplaceAll(path, `\.`, "!"), ir.InName) }

// inQuotes returns an expression as a word of haproxy.cfg; inner, as a part of one that is in double quotes.
func inQuotes(expression string) string { return `"` + inner(expression) + `"` }

func inner(expression string) string {
	return strings.NewReplacer(`\`, `\\`, `$`, `\$`).Replace(expression)
}
