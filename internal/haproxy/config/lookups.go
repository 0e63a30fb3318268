package config

import (
	"fmt"
	"strconv"
	"strings"

	"gateway/internal/routing"
)

// lookups writes the rules that find the target of a request or connection in the maps, most specific first.
//
// A map is replaced at one moment, but that may be between two lookups of a request, or within one: HAProxy reads anew at each entry which
// table is the current one. A request must not meet half of the old table and half of the new, since it might miss a route that both
// have. So the version is read before and after, and if it changed, everything is looked up again. A third version in between is not to
// be expected: each takes milliseconds to load. On a machine that is very busy it was seen, though, so there is a third try.
type lookups struct {
	b *strings.Builder
	// directive starts a rule: "http-request" or "tcp-request content".
	directive string
	mapPath   string
	// depths are those of wildcard hostnames, see wildcardDepths.
	depths []int
	// unknown is the condition that the first lookup has not been made yet, "" if it never is.
	unknown string
	// found are the rules that end the search, "" if there are none. They want the condition that the request is not torn.
	found string
}

// tries is how often everything is looked up while the map changes under a request.
const tries = 3

// set writes a rule that sets a variable, if there is a condition, only if it holds.
func (l lookups) set(name, value, condition string) {
	if condition != "" {
		condition = " if " + strings.TrimSpace(condition)
	}
	fmt.Fprintf(l.b, "    %s set-var(txn.%s) %s%s\n", l.directive, name, value, condition)
}

// writeHosts sets a variable for each depth of wildcards: the labels of a host that may be a wildcard's suffix.
func (l lookups) writeHosts() {
	for _, depth := range l.depths {
		// A host of no more labels is not below the wildcard's suffix.
		l.set("below"+strconv.Itoa(depth), fmt.Sprintf("var(txn.host),field(-1,.,%d)", depth),
			fmt.Sprintf("{ var(txn.host),field(%d,.) -m found }", depth+1))
	}
}

// place is a way to write the host in keys.
type place struct {
	// host is the converter that adds it to the key of a listener.
	host string
	// paths is the expression for what the keys of its paths begin with.
	paths string
}

// exact is the place of a hostname as it is. On a port, that is one listener's, so its paths are found without knowing which.
var exact = place{host: "concat(,txn.host)", paths: "fe_name,concat(/,txn.host)"}

// others returns the places of the wildcards that a host may meet, most specific first.
func (l lookups) others() []place {
	var hosts []string
	for _, depth := range l.depths {
		hosts = append(hosts, "concat(*.,txn.below"+strconv.Itoa(depth)+")")
	}
	var others []place
	for _, host := range append(hosts, "concat(*,)") {
		others = append(others, place{host: host, paths: "str(p/),concat(,txn.listener,/)," + host})
	}
	return others
}

func (l lookups) places() []place { return append([]place{exact}, l.others()...) }

const isTorn = "{ var(txn.torn) -m found } "

// lookup returns the converter that looks a key up: as it is ("str"), or by the longest that it begins with ("beg").
func (l lookups) lookup(kind string) string { return "map_" + kind + "(" + l.mapPath + ")" }

// sameVersion returns the condition that the map has not changed since the version was read.
func (l lookups) sameVersion() string {
	return "{ str(version)," + l.lookup("str") + ",strcmp(txn.version) eq 0 }"
}

// writeListener finds the listener of the host, unless it is known.
func (l lookups) writeListener(condition string) {
	for _, place := range l.places() {
		l.set("listener", "str(l/),concat(,txn.port,/),"+place.host+","+l.lookup("str"), condition+miss("listener"))
	}
}

// writeExact looks up a path of the request's host as it is.
func (l lookups) writeExact(path, condition string) {
	l.set("version", "str(version),"+l.lookup("str"), condition)
	l.set("hit", exact.paths+",concat(,txn."+path+",/>),"+l.lookup("beg"), condition)
}

// writeFast finds the first entry of the request's listener, host and path. That is all there is to find, unless it is the
// name of a list of conditions.
func (l lookups) writeFast() {
	l.set("port", "fe_name", "")
	l.writeHosts()
	for try := range tries {
		pass, first := "", l.unknown
		if try > 0 {
			pass, first = isTorn, isTorn
			l.writeTorn()
		}
		l.writeExact("clean", first)
		l.set("listener", "var(txn.hit),field(9,"+mark+")", pass)
		l.writeListener(pass)
		for _, place := range l.others() {
			l.set("hit", place.paths+",concat(,txn.clean,/>),"+l.lookup("beg"), pass+miss("hit"))
		}
		l.writeTarget(pass)
		l.writeFound()
	}
}

// writeFound writes the rules that end the search if the map has not changed.
func (l lookups) writeFound() {
	if l.found != "" {
		fmt.Fprintf(l.b, l.found, l.sameVersion())
	}
}

// writeTorn notes whether the map has changed since the version was read, and forgets what was found.
func (l lookups) writeTorn() {
	fmt.Fprintf(l.b, "    %s unset-var(txn.torn)\n", l.directive)
	l.set("torn", "bool(true)", "!"+l.sameVersion())
	for _, name := range []string{"listener", "hit", "target", "share", "program"} {
		fmt.Fprintf(l.b, "    %s unset-var(txn.%s) if %s\n", l.directive, name, strings.TrimSpace(isTorn))
	}
}

// noRoute is the expression for the HIT of a request that is a listener's, but no route's.
var noRoute = "str(" + literal(`-","rule":"-","listener":"`) + "),concat(,txn.listener," + literal(`","backend":"-`) + ")"

// writeTarget finds the program and the backend section of a hit, and leaves in txn.hit what is to be there when the search is over.
func (l lookups) writeTarget(condition string) {
	l.set("target", "var(txn.hit),field(1,|),field(13,"+mark+")", condition)
	l.set("program", "var(txn.hit),field(2,|),"+l.lookup("str"), condition)
	split := condition + "{ var(txn.target) -m str " + targetSplit + " }"
	l.set("random", "rand(16777216),hex,bytes(10,6)", split)
	l.set("index", "var(txn.hit),field(2,|),concat(/,txn.random),"+l.lookup("beg"), split)
	l.set("share", "var(txn.hit),field(3,|),concat(/,txn.index),"+l.lookup("str"), split)
	l.set("target", "var(txn.share),field(1,|)", split)
	l.set("program", "var(txn.share),field(2,|),"+l.lookup("str"), condition+has("share"))
	l.set("hit", "var(txn.hit),ltrim("+moreToSay+"),field(1,"+mark+",8),concat("+mark+",txn.listener,"+mark+"),concat("+literal(`,"backend":"`)+",txn.target)",
		condition+"{ var(txn.hit) -m beg "+moreToSay+" }")
	l.set("hit", noRoute, condition+miss("hit")+" "+has("listener"))
}

// has returns the condition that a variable is set.
func has(name string) string { return "{ var(txn." + name + ") -m found }" }

// miss returns the condition for another try to set a variable: that no earlier one did.
func miss(name string) string { return "!" + has(name) }

// writeSlow is for requests that may have to meet conditions: it asks every list on the way, see conditions.go.
func (l lookups) writeSlow(paths Paths, headers, params []string) {
	// What was found is a list, and no route that the log could name, should the request be refused.
	l.set("hit", noRoute, "")
	writeFacts(l.b, headers, params)
	fmt.Fprintf(l.b, "    %s unset-var(txn.hit)\n", l.directive)
	for try := range tries {
		pass := ""
		if try > 0 {
			pass = isTorn
			l.writeTorn()
			l.set("version", "str(version),"+l.lookup("str"), pass)
			l.writeListener(pass)
		}
		open := pass + miss("hit") + " "
		for _, place := range l.places() {
			for _, value := range []string{
				place.paths + ",concat(,txn.clean,/>),map_str(" + l.mapPath + ")",
				"str(r/),concat(,txn.listener,/)," + place.host + ",map_str(" + l.mapPath + ")",
				place.paths + ",concat(,txn.clean,/),map_beg(" + l.mapPath + ")",
			} {
				fmt.Fprintf(l.b, "    %[1]s unset-var(txn.node)\n    %[1]s unset-var(txn.item)\n", l.directive)
				l.set("node", value, open)
				if len(params) > 0 {
					tooLong := "{ var(txn.long) -m found } { var(txn.node) -m beg ? } { var(txn.node) -m sub " + asksQuery + "| }"
					l.set("hit", noRoute, tooLong)
					fmt.Fprintf(l.b, "    %s deny deny_status 400 if %s\n", l.directive, tooLong)
				}
				l.writeList(paths, "item", "facts", "")
				l.set("hit", "str(c/),concat(,txn.node,/),concat(,txn.item),map_str("+l.mapPath+")", has("item"))
				l.set("hit", "var(txn.node)", has("node")+" !{ var(txn.node) -m beg ? }")
			}
		}
		l.writeTarget(pass)
		l.writeFound()
	}
}

// writeList sets a variable to what the list that txn.node names says of the lines in another variable.
func (l lookups) writeList(paths Paths, name, lines, condition string) {
	for i := range conditionFiles {
		l.set(name, fmt.Sprintf("var(txn.node),concat(,txn.%s),map_reg(%s/%s)", lines, paths.ConfigDir, conditionFile(i)),
			fmt.Sprintf("%s{ var(txn.node) -m beg ?%d: }", condition, i))
	}
}

// What of percent-encodings is decoded: what a path may have as it is, printable ASCII without the percent sign, and the
// latter without "&", "+" and "=" too.
const (
	encodedPath = `2[146-9A-Fa-f]|3[0-9ABDabd]|4[0-9A-Fa-f]|5[0-9AFaf]|6[1-9A-Fa-f]|7[0-9AEae]`
	encodedText = `2[1-46-9A-Fa-f]|[3-6][0-9A-Fa-f]|7[0-9A-Ea-e]`
	encodedName = `2[1-47-9ACa-cD-Fd-f]|3[0-9A-CE-Fa-ce-f]|[4-6][0-9A-Fa-f]|7[0-9A-Ea-e]`
)

// decodeOnly returns the converters that decode certain percent-encodings and leave the others as they are: by encoding
// their percent signs first.
func decodeOnly(encodings string) string {
	return `regsub("%(?!` + encodings + `)","%25",g),url_dec`
}

// writeFacts sets txn.facts to the lines that the conditions are tested on.
//
// A header that comes several times is taken from the block of all headers: every other line is removed from it, and what
// is left is joined. The block has line breaks of its own for the start and end of each line, because regsub starts anew
// after each match.
func writeFacts(b *strings.Builder, headers, params []string) {
	set := func(name, value, condition string) {
		fmt.Fprintf(b, "    http-request set-var(txn.%s) %s if %s\n", name, value, condition)
	}
	format := func(name, value, condition string) {
		fmt.Fprintf(b, "    http-request set-var-fmt(txn.%s) \"%s\" if %s\n", name, value, condition)
	}
	always := "TRUE"
	format("facts", `\n%[method]\n%[var(txn.clean)]\n`, always)
	for _, header := range headers {
		name := quoteName(header)
		literal := routing.QuoteRegex(header)
		count := "{ req.fhdr_cnt(" + name + ") "
		b.WriteString("    http-request unset-var(txn.value)\n")
		set("value", "req.fhdr("+name+")", count+"eq 1 }")
		format("value", `\n%[req.hdrs]`, count+"gt 1 }")
		set("value", `'var(txn.value),regsub("\x0D\x0A","\x0A\x0A",g),regsub("\x0A(?!`+literal+`:)[^\x0A]+\x0A","",g),`+
			`regsub("\x0A+`+literal+`:[\x09\x20]*",",",g),regsub("^,|\x0A","",g)'`, count+"gt 1 }")
		format("facts", `%[var(txn.facts)]\n\nh:`+label(header)+`\n%[var(txn.value)]\n`, count+"gt 0 }")
	}
	if len(params) > 0 {
		// It grows to at most five times its length on the way, and HAProxy would cut it without a word. Who is asked about a longer one is
		// refused.
		set("long", "bool(true)", "{ query -m len gt 3200 }")
		set("query", `'query,`+decodeOnly(encodedName)+`'`, miss("long"))
		format("query", `&%[var(txn.query)]`, always)
	}
	for _, param := range params {
		literal := routing.QuoteRegex(param)
		found := "{ var(txn.query) -m reg '&" + literal + "=' }"
		b.WriteString("    http-request unset-var(txn.value)\n")
		set("value", `'var(txn.query),regsub("^.*?&`+literal+`=",""),regsub("&.*$",""),regsub("%(?![0-9A-Fa-f][0-9A-Fa-f])","%25",g),`+
			`regsub("%00","%2500",g),url_dec(1),url_enc,`+decodeOnly(encodedText)+`'`, found)
		format("facts", `%[var(txn.facts)]\n\nq:`+label(param)+`\n%[var(txn.value)]\n`, found)
	}
	// A longer text would have been cut.
	b.WriteString("    http-request deny deny_status 400 if { var(txn.facts) -m len gt 15000 }\n")
}
