package list

import (
	"cmp"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/util/jsonpath"

	appv1 "gateway/api/app/v1"
	"gateway/cmd/kubectl-gateway/internal/cli"
)

func (c *command) format() string { return *c.printing.OutputFormat }

// isTable says whether the output is made of rows.
func (c *command) isTable() bool {
	format := c.format()
	return format == "" && *c.printing.TemplatePrinterFlags.TemplateArgument == "" || format == "wide" || strings.HasPrefix(format, columnsPrefix)
}

func (c *command) newPrinter() (printers.ResourcePrinter, error) {
	if c.format() == strings.TrimSuffix(columnsPrefix, "=") {
		return nil, cli.Usagef("custom-columns needs columns, like custom-columns=NAME:.metadata.name")
	}
	if strings.HasPrefix(c.format(), columnsPrefix) {
		var err error
		if c.columns, err = parseColumns(c.format()); err != nil {
			return nil, err
		}
	}
	if c.isTable() {
		c.wide = c.format() == "wide"
		return printers.NewTablePrinter(printers.PrintOptions{NoHeaders: c.noHeaders, Wide: c.wide}), nil
	}
	printer, err := c.printing.ToPrinter()
	if err != nil {
		return nil, cli.Usagef("%w", err)
	}
	return printer, nil
}

// column is one of custom-columns.
type column struct {
	name string
	path *jsonpath.JSONPath
}

// parseColumns takes NAME:PATH,... apart; a path may be written .a.b, a.b or {.a.b}.
func parseColumns(format string) ([]column, error) {
	var columns []column
	for spec := range strings.SplitSeq(strings.TrimPrefix(format, columnsPrefix), ",") {
		name, path, ok := strings.Cut(spec, ":")
		if !ok || name == "" || path == "" {
			return nil, cli.Usagef("the custom column %q is not like NAME:.path", spec)
		}
		path = strings.TrimPrefix(strings.TrimSuffix(strings.TrimPrefix(path, "{"), "}"), ".")
		parsed := jsonpath.New(name).AllowMissingKeys(true)
		if err := parsed.Parse("{." + path + "}"); err != nil {
			return nil, cli.Usagef("the path of the custom column %q is wrong: %w", spec, err)
		}
		columns = append(columns, column{name, parsed})
	}
	return columns, nil
}

// customTable returns the table of custom-columns.
func customTable(columns []column, gateways []appv1.Gateway) (*metav1.Table, error) {
	table := &metav1.Table{}
	for _, column := range columns {
		table.ColumnDefinitions = append(table.ColumnDefinitions, metav1.TableColumnDefinition{Name: column.name, Type: "string"})
	}
	for i := range gateways {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&gateways[i])
		if err != nil {
			return nil, err
		}
		row := metav1.TableRow{}
		for _, column := range columns {
			results, err := column.path.FindResults(content)
			if err != nil {
				return nil, fmt.Errorf("failed to find the value of column %s: %w", column.name, err)
			}
			var values []string
			for _, result := range results {
				for _, value := range result {
					values = append(values, fmt.Sprint(value.Interface()))
				}
			}
			row.Cells = append(row.Cells, cmp.Or(strings.Join(values, ","), "<none>"))
		}
		table.Rows = append(table.Rows, row)
	}
	return table, nil
}
