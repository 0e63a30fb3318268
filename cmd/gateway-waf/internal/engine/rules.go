package engine

import (
	"io/fs"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"

	coreruleset "github.com/corazawaf/coraza-coreruleset/v4"
)

// ruleFiles are the files of the Core Rule Set, without what takes time for each request and changes no verdict.
type ruleFiles struct {
	fs.FS
	kind
	// captures reports whether rules of a user read what rules captured.
	captures bool
	mu       sync.Mutex
	// dropped are the IDs of rules that were left out, and light are the files that were read.
	dropped map[string]bool
	light   map[string][]byte
}

// filesFor returns the files for a kind of requests. They are the same for all rules of users.
var filesFor = func() func(kind, bool) *ruleFiles {
	var all sync.Map
	return func(k kind, captures bool) *ruleFiles {
		files, _ := all.LoadOrStore(struct {
			kind
			captures bool
		}{k, captures}, &ruleFiles{
			FS: coreruleset.FS, kind: k, captures: captures, dropped: map[string]bool{}, light: map[string][]byte{},
		})
		return files.(*ruleFiles)
	}
}()

// kind is a kind of requests.
type kind struct {
	// level is the paranoia level; 0: each rule checks the level itself. plain is what isPlain reports of the requests.
	level string
	plain bool
}

var (
	// texts are what a rule says to people. Coraza makes the text before it knows whether the rule finds something.
	texts        = regexp.MustCompile(`(?:msg|logdata):'(?:[^'\\]|\\.)*',?`)
	isChained    = regexp.MustCompile(`[",\s]chain\b`)
	ofID         = regexp.MustCompile(`\bid:([0-9]+)`)
	ofUpdate     = regexp.MustCompile(`^SecRuleUpdateTargetById ([0-9]+) `)
	ofLevel      = regexp.MustCompile(`^SecRule TX:DETECTION_PARANOIA_LEVEL "@lt ([1-4])" .*skipAfter:`)
	isMarker     = regexp.MustCompile(`^SecMarker `)
	capture      = regexp.MustCompile(`([",\s])capture,`)
	usesCaptured = regexp.MustCompile(`(?i)\btx[:.][0-9]`)
	// An expression of bytes is none of ours: Coraza matches it in another way.
	ofExpression = regexp.MustCompile(`("!?)@rx (.*" \\\n)`)
	ofBytes      = regexp.MustCompile(`(?i)\\x\{?[89a-f]`)
	ofFiltered   = regexp.MustCompile(`^SecRule (\S+) "@` + filtered + ` (.*)" \\\n`)
	transformed  = regexp.MustCompile(`\bt:(\w+)`)
)

// ReadFile returns a file of rules as Coraza has to read it.
func (f *ruleFiles) ReadFile(name string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if light, ok := f.light[name]; ok {
		return light, nil
	}
	content, err := fs.ReadFile(f.FS, name)
	if err != nil || !strings.Contains(name, "@owasp_crs/REQUEST-") {
		return content, err
	}
	var all strings.Builder
	isAbove := false
	for _, chain := range chains(string(content)) {
		if level := ofLevel.FindStringSubmatch(chain); level != nil && f.level != "" {
			isAbove = isAbove || level[1] > f.level
			continue
		}
		isAbove = isAbove && !isMarker.MatchString(chain)
		if updated := ofUpdate.FindStringSubmatch(chain); updated != nil && f.dropped[updated[1]] {
			continue
		}
		left := ""
		if !isAbove {
			left = f.lighter(chain)
		}
		if id := ofID.FindStringSubmatch(chain); left == "" && id != nil {
			f.dropped[id[1]] = true
		}
		all.WriteString(left)
	}
	f.light[name] = []byte(all.String())
	return f.light[name], nil
}

// Glob returns the names of files, which Coraza looks for.
func (f *ruleFiles) Glob(pattern string) ([]string, error) { return fs.Glob(f.FS, pattern) }

// chains returns the directives of a file, with the lines that they go on in and the rules that are chained to them.
func chains(content string) (all []string) {
	var chain, directive strings.Builder
	for line := range strings.Lines(content) {
		if text := strings.TrimSpace(line); directive.Len() == 0 && (text == "" || text[0] == '#') {
			continue
		}
		directive.WriteString(line)
		if strings.HasSuffix(strings.TrimSpace(line), `\`) {
			continue
		}
		chain.WriteString(directive.String())
		if !isChained.MatchString(directive.String()) {
			all = append(all, chain.String())
			chain.Reset()
		}
		directive.Reset()
	}
	return append(all, chain.String())
}

// lighter returns a chain of rules, or one, that captures nothing unless it is used, and whose expressions are tried
// only on texts that may match; "": it finds nothing in requests of the kind.
func (f *ruleFiles) lighter(chain string) string {
	chain = texts.ReplaceAllString(chain, "")
	if f.captures || usesCaptured.MatchString(chain) {
		return chain
	}
	chain = capture.ReplaceAllString(chain, "$1")
	chain = ofExpression.ReplaceAllStringFunc(chain, func(found string) string {
		if ofBytes.MatchString(found) {
			return found
		}
		return strings.Replace(found, "@rx ", "@"+filtered+" ", 1)
	})
	if f.plain {
		return ofPlain(chain)
	}
	return chain
}

// A request is plain if it has no body, and its URI and cookies have only plain characters. They stay plain whatever
// decodes them. So rules whose expression needs another character find nothing there.
var (
	plainCharacters, _ = lettersOf("abcdefghijklmnopqrstuvwxyz0123456789 _-./=&;+?")
	// plainTargets have only plain characters in plain requests, or nothing.
	plainTargets = []string{
		"ARGS", "ARGS_NAMES", "REQUEST_COOKIES", "REQUEST_COOKIES_NAMES", "REQUEST_FILENAME", "REQUEST_BASENAME",
		"REQUEST_URI", "REQUEST_URI_RAW", "REQUEST_BODY", "FILES", "FILES_NAMES", "XML:/*", "XML://@*",
	}
	// keepsPlain are the transformations that make plain characters of plain ones.
	keepsPlain = []string{
		"none", "lowercase", "urlDecode", "urlDecodeUni", "htmlEntityDecode", "jsDecode", "cssDecode", "escapeSeqDecode",
		"utf8toUnicode", "removeNulls", "removeWhitespace", "compressWhitespace", "replaceComments", "removeCommentsChar",
		"cmdLine", "normalizePath", "normalisePath", "normalizePathWin",
	}
)

// isPlain reports whether the request is plain.
func (r *Request) isPlain() bool {
	isPlain := func(text string) bool {
		has, isASCII := lettersOf(text)
		return isASCII && plainCharacters.contains(has)
	}
	return len(r.Body) == 0 && isPlain(r.URI) && !slices.ContainsFunc(r.Headers, func(header Header) bool {
		return strings.EqualFold(header.Name, "cookie") && !isPlain(header.Value)
	})
}

// ofPlain returns what is left of a chain of rules, or one, for plain requests; "": nothing.
func ofPlain(chain string) string {
	found := ofFiltered.FindStringSubmatch(chain)
	if found == nil {
		return chain
	}
	first, _, _ := strings.Cut(chain, "\n    SecRule")
	for _, t := range transformed.FindAllStringSubmatch(first, -1) {
		if !slices.Contains(keepsPlain, t[1]) {
			return chain
		}
	}
	parsed, err := syntax.Parse(flags+found[2], syntax.Perl)
	if err != nil || slices.ContainsFunc(needsOf(parsed), plainCharacters.contains) {
		return chain
	}
	left := slices.DeleteFunc(strings.Split(found[1], "|"), func(target string) bool { return slices.Contains(plainTargets, target) })
	if !slices.ContainsFunc(left, func(target string) bool { return target[0] != '!' }) {
		return ""
	}
	return strings.Replace(chain, found[1], strings.Join(left, "|"), 1)
}
