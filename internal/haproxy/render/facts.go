package render

import (
	"gateway/internal/haproxy/ir"
	"gateway/internal/regex"
)

// What of percent-encodings is decoded: what a path may have as it is, printable ASCII without the percent sign, and
// the latter without "&", "+" and "=" too.
const (
	encodedPath = `2[146-9A-Fa-f]|3[0-9ABDabd]|4[0-9A-Fa-f]|5[0-9AFaf]|6[1-9A-Fa-f]|7[0-9AEae]`
	encodedText = `2[1-46-9A-Fa-f]|[3-6][0-9A-Fa-f]|7[0-9A-Ea-e]`
	encodedName = `2[1-47-9ACacD-Fd-f]|3[0-9A-CE-Fa-ce-f]|[4-6][0-9A-Fa-f]|7[0-9A-Ea-e]`
)

// decodeOnly returns the converters that decode certain percent-encodings and leave the others as they are: by encoding
// their percent signs first.
func decodeOnly(encodings string) string {
	return `regsub("%(?!` + encodings + `)","%25",g),url_dec`
}

// factLines set txn.facts to the lines that conditions are tested on, unless the rule of the request is known: see
// conditions.go.
//
// A text of more than 15,000 bytes may have been cut, and takes too many steps: what has conditions refuses it.
//
// A header that comes several times is taken from the block of all headers: every other line is removed from it, and
// what is left is joined. The block has line breaks of its own for the start and end of each line, because regsub
// starts anew after each match.
func factLines(headers, params []string) []string {
	var lines []string
	set := func(name, value, condition string) {
		lines = append(lines, "http-request set-var(txn."+name+") "+value+" if "+isUnknown+condition)
	}
	format := func(name, value, condition string) {
		lines = append(lines, "http-request set-var-fmt(txn."+name+") \""+value+"\" if "+isUnknown+condition)
	}
	const always = ""
	const encoded = " { var(txn.clean) -m sub % }"
	set("value", "'var(txn.clean),"+decodeOnly("20|"+encodedText)+"'", encoded)
	format("facts", `\n%[method]\n%[var(txn.clean)]\n`, always)
	format("facts", `\n%[method]\n%[var(txn.value)]\n`, encoded)
	for _, header := range headers {
		name, literal := ir.Quote(header, ir.InName), regex.Quote(header)
		count := " { req.fhdr_cnt(" + name + ") "
		set("value", "req.fhdr("+name+")", count+"eq 1 }")
		format("value", `\n%[req.hdrs]`, count+"gt 1 }")
		set("value", `'var(txn.value),regsub("\x0D\x0A","\x0A\x0A",g),regsub("\x0A(?!`+literal+`:)[^\x0A]+\x0A","",g),`+
			`regsub("\x0A+`+literal+`:[\x09\x20]*",",",g),regsub("^,|\x0A","",g)'`, count+"gt 1 }")
		format("facts", `%[var(txn.facts)]\n\nh:`+label(header)+`\n%[var(txn.value)]\n`, count+"gt 0 }")
	}
	if len(params) > 0 {
		// It grows to at most five times its length on the way, and HAProxy would cut it without a word. Who is asked
		// about a longer one is refused.
		set("long", "bool(true)", " { query -m len gt 3200 }")
		set("query", `'query,`+decodeOnly(encodedName)+`'`, " !{ var(txn.long) -m found }")
		format("query", `&%[var(txn.query)]`, always)
	}
	for _, param := range params {
		literal := regex.Quote(param)
		found := " { var(txn.query) -m reg '&" + literal + "=' }"
		set("value", `'var(txn.query),regsub("^.*?&`+literal+`=",""),regsub("&.*$",""),regsub("%(?![0-9A-Fa-f][0-9A-Fa-f])","%25",g),`+
			`regsub("%00","%2500",g),url_dec(1),url_enc,`+decodeOnly(encodedText)+`'`, found)
		format("facts", `%[var(txn.facts)]\n\nq:`+label(param)+`\n%[var(txn.value)]\n`, found)
	}
	return lines
}
