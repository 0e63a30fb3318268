package logs

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	stampFormat = "2006-01-02T15:04:05.000Z"
	// maxWidth is how far a long value pushes the columns after it, in this line and those that follow.
	maxWidth = 40
	// podWidth is that of what a ReplicaSet adds to the name of a pod.
	podWidth = 16
	// noServer is what HAProxy logs in place of a server that it did not choose.
	noServer = "<NOSRV>"
)

var columns = []string{"TIME", "POD", "STATUS", "TOOK", "BYTES", "CLIENT", "ROUTE", "BACKEND", "REQUEST"}

// printer writes lines in columns, which become wider with what comes, or as JSON.
type printer struct {
	out io.Writer
	// prefix is what the names of all pods begin with.
	prefix       string
	json, colour bool
	widths       []int
}

func newPrinter(out io.Writer, prefix string) *printer {
	return &printer{out: out, prefix: prefix, widths: []int{len(stampFormat), podWidth, 0, 6, 6, 12, 10, 30, 0}}
}

func (p *printer) header() error { return p.row(columns, "") }

func (p *printer) print(l line) error {
	switch {
	case p.json:
		return p.printJSON(l)
	case l.access == nil:
		return p.row([]string{stamp(l), p.pod(l), l.text}, "")
	}
	a := l.access
	return p.row([]string{
		stamp(l), p.pod(l), status(a), fmt.Sprintf("%dms", max(a.MSTotal, 0)), fmt.Sprint(a.BytesOut), a.Client, route(a), backend(a), request(a),
	}, colourOf(a.Status))
}

// printJSON writes a line of the access log as it is, with the pod, and any other as an object of its own.
func (p *printer) printJSON(l line) error {
	object := map[string]string{"pod": l.pod}
	rest := "}"
	if l.access != nil {
		rest = "," + l.text[1:]
	} else {
		object["time"], object["message"] = stamp(l), l.text
	}
	content, err := json.Marshal(object)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(p.out, strings.TrimSuffix(string(content), "}")+rest)
	return err
}

// row writes cells in columns. What clients sent may hold anything, so nothing but text gets to the terminal.
func (p *printer) row(cells []string, colour string) error {
	var b strings.Builder
	for i, cell := range cells {
		cell = clean(cell)
		padding := ""
		if i < len(cells)-1 {
			width := utf8.RuneCountInString(cell)
			p.widths[i] = max(p.widths[i], min(width, maxWidth))
			padding = strings.Repeat(" ", max(p.widths[i]-width, 0)+2)
		}
		if p.colour && i == 2 && colour != "" {
			cell = colour + cell + "\x1b[0m"
		}
		b.WriteString(cell + padding)
	}
	_, err := fmt.Fprintln(p.out, b.String())
	return err
}

// clean returns the text with what is not printable written as Go does.
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

func stamp(l line) string {
	if l.time.IsZero() {
		return "-"
	}
	return l.time.UTC().Truncate(time.Millisecond).Format(stampFormat)
}

func (p *printer) pod(l line) string { return strings.TrimPrefix(l.pod, p.prefix) }

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

// request says what was asked for and, if the connection did not end as it should, how (HAProxy's documentation,
// "Session state at disconnection"), and which filter stopped the request.
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
	return text
}

func colourOf(status int) string {
	switch {
	case status >= 500:
		return "\x1b[31m"
	case status >= 400:
		return "\x1b[33m"
	case status >= 200:
		return "\x1b[32m"
	}
	return ""
}
