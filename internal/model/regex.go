package model

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
)

// regexSyntax is RE2's without its classes of Unicode: no byte is such a character, and Go takes long to read them.
const regexSyntax = syntax.Perl &^ syntax.UnicodeGroups

// With Go 1.26.8, some expressions that ignore case and name characters of Unicode took long to read. No byte is such a
// character.
var (
	ignoresCase  = regexp.MustCompile(`\(\?[A-Za-z-]*i`)
	namesUnicode = regexp.MustCompile(`\\x\{0*[1-9A-Fa-f][0-9A-Fa-f]{2}`)
)

// ParseRegex reads an expression. Its characters are bytes. An error says what is wrong with it.
func ParseRegex(expression string) (*syntax.Regexp, error) {
	if ignoresCase.MatchString(expression) && namesUnicode.MatchString(expression) {
		return nil, errors.New(`with (?i), there can be no character above \xFF, which no byte is`)
	}
	parsed, err := syntax.Parse(expression, regexSyntax)
	var parse *syntax.Error
	if errors.As(err, &parse) {
		return nil, fmt.Errorf("%s: %q", parse.Code, parse.Expr)
	}
	return parsed, err
}
