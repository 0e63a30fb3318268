package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// column are the results of one subject, by what was measured, in the order of measuring.
type column struct {
	title string
	rows  []string
	cells map[string]string
}

func (c *column) set(row, format string, values ...any) {
	if c.cells == nil {
		c.cells = map[string]string{}
	}
	c.rows = append(c.rows, row)
	c.cells[row] = fmt.Sprintf(format, values...)
}

// table are the results side by side.
type table []column

// print writes a table in Markdown.
func (t table) print(out io.Writer) {
	var rows []string
	header, rule := "|", "|---|"
	for _, c := range t {
		header += " | " + c.title
		rule += "---|"
		for _, row := range c.rows {
			if !slices.Contains(rows, row) {
				rows = append(rows, row)
			}
		}
	}
	var text strings.Builder
	fmt.Fprintf(&text, "\n%s |\n%s\n", header, rule)
	for _, row := range rows {
		fmt.Fprintf(&text, "| %s", row)
		for _, c := range t {
			fmt.Fprintf(&text, " | %s", c.cells[row])
		}
		text.WriteString(" |\n")
	}
	_, _ = io.WriteString(out, text.String())
}
