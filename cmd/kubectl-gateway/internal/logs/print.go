package logs

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
)

const (
	stampFormat = "2006-01-02T15:04:05.000Z"
	// noServer is what HAProxy logs in place of a server that it did not choose.
	noServer = "<NOSRV>"
)

// printer writes lines in columns, or as JSON.
type printer struct {
	out io.Writer
	// prefix is what the names of all pods begin with.
	prefix string
	json   bool
}

func (p *printer) print(l line) error {
	stamp, pod, a := l.time.UTC().Truncate(time.Millisecond).Format(stampFormat), strings.TrimPrefix(l.pod, p.prefix), l.access
	switch {
	case p.json:
		return p.printJSON(l, stamp)
	case a == nil:
		_, err := fmt.Fprintf(p.out, "%s  %-16s  %s\n", stamp, pod, clean(l.text))
		return err
	}
	return p.row(stamp, pod, status(a), fmt.Sprintf("%dms", max(a.MSTotal, 0)), fmt.Sprint(a.BytesOut), a.Client, route(a), backend(a), request(a))
}

// row writes cells in columns. Clients may send anything, so only text reaches the terminal.
func (p *printer) row(cells ...string) error {
	text := make([]any, len(cells))
	for i, cell := range cells {
		text[i] = clean(cell)
	}
	_, err := fmt.Fprintf(p.out, "%-24s  %-16s  %-6s  %-6s  %-6s  %-14s  %-12s  %-36s  %s\n", text...)
	return err
}

// printJSON writes a line of the access log unchanged, with the pod, and any other line as an object.
func (p *printer) printJSON(l line, stamp string) error {
	object := map[string]string{"pod": l.pod}
	rest := "}"
	if l.access != nil {
		rest = "," + l.text[1:]
	} else {
		object["time"], object["message"] = stamp, l.text
	}
	content, err := json.Marshal(object)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(p.out, strings.TrimSuffix(string(content), "}")+rest)
	return err
}

// clean returns the text with unprintable characters escaped as in Go.
func clean(text string) string {
	if strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(fmt.Sprintf("%+q", r), "'"))
		}
	}
	return b.String()
}

func status(a *Access) string {
	if a.Status <= 0 {
		return "-" // a connection, or a client that went away
	}
	return fmt.Sprint(a.Status)
}

func route(a *Access) string {
	if a.Rule == "" || a.Rule == "-" {
		return a.Route
	}
	return fmt.Sprintf("%s[%s]", a.Route, a.Rule)
}

func backend(a *Access) string {
	if a.Server == noServer {
		return "-"
	}
	return a.Backend + "/" + a.Server
}

// request describes the request and, if the connection did not end normally, how it ended (HAProxy's documentation,
// "Session state at disconnection"), and which filter stopped the request. Filters in shadow come last.
func request(a *Access) string {
	host := a.Host
	if a.Port != "80" && a.Port != "443" {
		host += ":" + a.Port
	}
	text := a.Method + " " + host + a.Path
	switch {
	case a.Method == "":
		text = "connection to " + host
	case strings.Trim(a.Error, "-") != "":
		text = a.Error + " on port " + a.Port
		if a.TLSError != "-" {
			text += ": " + a.TLSError
		}
	}
	if a.Termination != "--" {
		ended := a.Termination
		if strings.Trim(a.Filter, "-") != "" {
			ended += " " + a.Filter
		}
		text += " (" + ended + ")"
	}
	for _, filter := range slices.Sorted(maps.Keys(a.Shadow)) {
		text += fmt.Sprintf(" (shadow: %s %d)", filter, a.Shadow[filter])
	}
	return text
}
