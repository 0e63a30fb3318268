package config

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"gateway/internal/routing"
)

// What happens to the requests of a rule, beside the choice of a backend, is a program: a line of data that the rules of
// the section "routed" carry out. Its fields are separated by "|"; url_dec makes texts what they were. After the fixed
// fields come the changes of headers, each between two "|":
//
//	#q-NAME         remove the request headers of that name
//	#q+NAME.I=TEXT  then add one; I counts from 0
//	#r-NAME, #r+... the same for the answer
//
// No other field has a "#".
const (
	fieldFlags = iota + 1
	fieldTimeout
	fieldMaxBody
	fieldPathKind
	fieldPath
	fieldHost
	fieldStatus
	fieldScheme
	fieldLocationHost
	fieldLocationPort
	fieldResponse
	fieldCredentials
	fieldMethods
	fieldAllowHeaders
	fieldExposeHeaders
	fieldMaxAge
	fieldOrigins
	fieldCount = fieldOrigins
)

// The letters of fieldFlags.
const (
	flagTimeout  = "t"
	flagMaxBody  = "b"
	flagPath     = "p"
	flagHost     = "a"
	flagRedirect = "r"
	flagResponse = "d"
	flagCORS     = "c"
	flagHeaders  = "h"
	flagOnce     = "o"
)

// Values of fieldPathKind and fieldLocationPort; the former may also be a number: how many segments to replace.
const (
	pathFull     = "full"
	portListener = "*"
)

// longest stands for a timeout that is none, or longer: HAProxy keeps milliseconds in 32 bits, and does not say so of those of a program.
const longest = 24 * 24 * time.Hour

// isEmpty says whether the rule does nothing but choose a backend.
func isEmpty(rule *routing.Rule, headers routing.HeaderChanges) bool {
	return rule.Timeout == 0 && rule.MaxBody < 0 && rule.Rewrite == nil && rule.Redirect == nil && rule.Response == nil &&
		rule.CORS == nil && len(headers.Request)+len(headers.Response) == 0
}

// program returns the program of a rule, whose headers are changed like this in all. origins is the value of its
// fieldOrigins.
func program(rule *routing.Rule, headers routing.HeaderChanges, origins string) string {
	p := make([]string, fieldCount+1)
	set := func(flag string, fields map[int]string) {
		p[fieldFlags] += flag
		for i, text := range fields {
			p[i] = quote(text, inProgram)
		}
	}
	if rule.Timeout != 0 {
		timeout := rule.Timeout
		if timeout < 0 || timeout > longest {
			timeout = longest
		}
		set(flagTimeout, map[int]string{fieldTimeout: milliseconds(timeout)})
	}
	if rule.Once {
		set(flagOnce, nil)
	}
	if rule.MaxBody >= 0 {
		set(flagMaxBody, map[int]string{fieldMaxBody: strconv.FormatInt(rule.MaxBody, 10)})
	}
	if rewrite := rule.Rewrite; rewrite != nil {
		if rewrite.Hostname != "" {
			set(flagHost, map[int]string{fieldHost: rewrite.Hostname})
		}
		if rewrite.Path != nil {
			set(flagPath, pathFields(rewrite.Path))
		}
	}
	if rule.Redirect != nil {
		set(flagRedirect, redirectFields(rule.Redirect))
		if rule.Redirect.Path != nil {
			set("", pathFields(rule.Redirect.Path))
		}
	}
	if rule.Response != nil {
		set(flagResponse, map[int]string{fieldResponse: responseName(rule.Response)})
	}
	if cors := rule.CORS; cors != nil {
		set(flagCORS, corsFields(cors, origins))
	}
	if len(headers.Request)+len(headers.Response) > 0 {
		set(flagHeaders, nil)
	}
	return strings.Join(p[1:], "|") + "|" + headerSteps("q", headers.Request) + headerSteps("r", headers.Response)
}

// responseName returns the name of a fixed answer.
func responseName(response *routing.Response) string {
	return hashText(fmt.Sprintf("%d %s %s", response.Status, response.ContentType, response.Body))
}

func pathFields(path *routing.PathChange) map[int]string {
	if path.Full != "" {
		return map[int]string{fieldPathKind: pathFull, fieldPath: path.Full}
	}
	return map[int]string{fieldPathKind: strconv.Itoa(path.Depth), fieldPath: path.Prefix}
}

// redirectFields names no port where it is the scheme's own.
func redirectFields(redirect *routing.Redirect) map[int]string {
	port := portListener
	if redirect.Port != 0 {
		port = itoa(redirect.Port)
	} else if redirect.Scheme != "" {
		port = ""
	}
	return map[int]string{
		fieldStatus: itoa(redirect.Status), fieldScheme: redirect.Scheme, fieldLocationHost: redirect.Hostname, fieldLocationPort: port,
	}
}

func corsFields(cors *routing.CORS, origins string) map[int]string {
	credentials := ""
	if cors.Credentials {
		credentials = "true"
	}
	return map[int]string{
		fieldCredentials: credentials, fieldMethods: strings.Join(cors.Methods, ", "),
		fieldAllowHeaders: strings.Join(cors.Headers, ", "), fieldExposeHeaders: strings.Join(cors.Expose, ", "),
		fieldMaxAge: itoa(cors.MaxAge), fieldOrigins: origins,
	}
}

func headerSteps(side string, changes []routing.HeaderChange) string {
	var b strings.Builder
	for _, change := range changes {
		name := quote(change.Name, inProgram)
		if change.Clear {
			b.WriteString("#" + side + "-" + name + "|")
		}
		for i, value := range change.Values {
			b.WriteString("#" + side + "+" + name + "." + strconv.Itoa(i) + "=" + quote(value, inProgram) + "|")
		}
	}
	return b.String()
}

// targetHeaders returns the changes of headers of a rule and then of one of its targets.
func targetHeaders(rule *routing.Rule, target routing.Target) routing.HeaderChanges {
	return routing.HeaderChanges{
		Request:  routing.Then(rule.Headers.Request, target.Headers.Request...),
		Response: routing.Then(rule.Headers.Response, target.Headers.Response...),
	}
}

func milliseconds(d time.Duration) string {
	return strconv.FormatInt(max(1, d.Milliseconds()), 10)
}

func itoa[T ~int | ~int32](n T) string { return strconv.Itoa(int(n)) }

// orDash keeps a word from being empty.
func orDash(s string) string { return cmp.Or(s, "-") }
