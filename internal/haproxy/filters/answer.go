package filters

import (
	"fmt"

	"gateway/internal/haproxy/ir"
	"gateway/internal/model"
)

// Answer returns what follows "return" and the like in haproxy.cfg for an error of the proxy itself.
func (e Env) Answer(status int32, text string) string {
	return fmt.Sprintf("status %d%s", status, e.Content(status, text))
}

// Content returns what follows the status: the page of a status, or else one line of text. No cache keeps it.
//
// HAProxy reads a page from a file, so that it need not be quoted.
func (e Env) Content(status int32, text string) string {
	const format = " content-type %s hdr cache-control no-store %s"
	if page, ok := e.Table.ErrorPages[status]; ok {
		return fmt.Sprintf(format, ir.QuoteText(page.ContentType), "file "+e.Paths.Map(PageFile(page)))
	}
	return fmt.Sprintf(format, "text/plain", `string "`+text+`\n"`)
}

// PageFile returns the name of the file with the body of a page.
func PageFile(page model.ErrorPage) string { return "page-" + ir.ContentName(page.Body) }
