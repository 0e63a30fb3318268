package cli

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf16"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"
	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Files are what -f and -R name.
type Files struct {
	// Paths are files, directories, and "-" for standard input.
	Paths     []string
	Recursive bool
	// AgainstCluster reports whether the cluster has what the files lack, as far as the user may read it.
	AgainstCluster bool
}

// Document is one object of a file.
type Document struct {
	// Source is the file and the line where the document begins.
	Source string
	Object *unstructured.Unstructured
	// part is what it is in, and item its place there, if that is a List: items[0].
	part part
	item string
}

// String names the object.
func (d Document) String() string {
	name := d.Object.GetName()
	if namespace := d.Object.GetNamespace(); namespace != "" {
		name = namespace + "/" + name
	}
	return d.Object.GetKind() + " " + name
}

// Read returns the objects of all files, in their order. The error names everything that is wrong with any of them.
func (f Files) Read(stdin io.Reader) ([]Document, error) {
	files, err := f.List()
	if err != nil {
		return nil, err
	}
	var all []Document
	var errs []error
	for _, file := range files {
		content, err := readFile(file, stdin)
		if err != nil {
			return nil, fmt.Errorf("failed to read %s: %w", file, cause(err))
		}
		documents, err := parse(file, content)
		all, errs = append(all, documents...), append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("there is no object in %s", strings.Join(f.Paths, ", "))
	}
	return all, nil
}

// List returns the files that the paths stand for, without reading them.
func (f Files) List() ([]string, error) {
	var all []string
	for _, path := range f.Paths {
		if path == "-" {
			all = append(all, path)
			continue
		}
		visitors, err := resource.ExpandPathsToFileVisitors(nil, path, f.Recursive, resource.FileExtensions, nil)
		if err != nil {
			return nil, fmt.Errorf("failed to read %s: %w", path, cause(err))
		}
		for _, visitor := range visitors {
			all = append(all, visitor.(*resource.FileVisitor).Path)
		}
	}
	return all, nil
}

// cause is the reason of an error about a file that the message names already.
func cause(err error) error {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		return pathError.Err
	}
	return err
}

func readFile(file string, stdin io.Reader) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(stdin)
	}
	return os.ReadFile(file) //nolint:gosec // the user names the file
}

// parse returns the objects of a file.
func parse(file string, text []byte) ([]Document, error) {
	if file == "-" {
		file = "standard input"
	}
	var all []Document
	var errs []error
	for _, part := range split(file, decoded(text)) {
		documents, err := part.documents()
		all, errs = append(all, documents...), append(errs, err)
	}
	return all, errors.Join(errs...)
}

// decoded returns a text in UTF-8, without the mark that programs of Windows write before it: by the mark, they tell
// UTF-8 and UTF-16 apart.
func decoded(text []byte) []byte {
	var order binary.ByteOrder
	switch {
	case bytes.HasPrefix(text, []byte("\xff\xfe")):
		order = binary.LittleEndian
	case bytes.HasPrefix(text, []byte("\xfe\xff")):
		order = binary.BigEndian
	default:
		return bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	}
	var units []uint16
	for i := 2; i+1 < len(text); i += 2 {
		units = append(units, order.Uint16(text[i:]))
	}
	return []byte(string(utf16.Decode(units)))
}

// part is a YAML document of a file, from a line on.
type part struct {
	file string
	line int
	text []byte
}

// split returns the YAML documents of a file.
func split(file string, content []byte) []part {
	parts := []part{{file: file, line: 1}}
	number := 0
	for line := range bytes.Lines(content) {
		number++
		if rest, ok := bytes.CutPrefix(line, []byte("---")); ok && (len(rest) == 0 || bytes.ContainsAny(rest[:1], " \t\r\n")) {
			parts = append(parts, part{file: file, line: number + 1})
			continue
		}
		last := &parts[len(parts)-1]
		last.text = append(last.text, line...)
	}
	return parts
}

var (
	yamlLine = regexp.MustCompile(`^(?:error converting YAML to JSON: )?yaml: (?:unmarshal errors: )?line (\d+): `)
	// laterLines is where the next problem begins, if there are several.
	laterLines = regexp.MustCompile(` line (\d+):`)
)

// errorf returns an error at the line that the YAML parser names, or else at the document's first line.
func (p part) errorf(format string, args ...any) error {
	line, message := p.line, oneLine(fmt.Sprintf(format, args...))
	if match := yamlLine.FindStringSubmatch(message); match != nil {
		line, _ = strconv.Atoi(match[1])
		message = laterLines.ReplaceAllString(message[len(match[0]):], "; line $1:")
	}
	return fmt.Errorf("%s:%d: %s", p.file, line, message)
}

// json returns the JSON of a document. JSON is taken as it is, as kubectl does: a YAML parser refuses some of its
// characters and escapes.
func (p part) json() ([]byte, error) {
	if json.Valid(p.text) {
		twice, err := strictjson.UnmarshalStrict(p.text, new(any))
		return p.text, errors.Join(append(twice, err)...)
	}
	// The empty lines make the parser count lines as the file has them.
	return yaml.YAMLToJSONStrict(append(bytes.Repeat([]byte("\n"), p.line-1), p.text...))
}

// documents returns the objects of a document: none if it is empty, and the items of a List.
func (p part) documents() ([]Document, error) {
	text, err := p.json()
	if err != nil && bytes.Contains(p.text, []byte("{{")) {
		return nil, p.errorf("this is a template: fill it in first, as with helm template NAME CHART | kubectl gateway render --check -f -")
	}
	if err != nil && strings.Contains(err.Error(), "cannot start any token") {
		return nil, p.errorf("%v: indent by spaces, and not by tabs, and quote texts that begin with @ or `", err)
	}
	if err != nil {
		return nil, p.errorf("%v", err)
	}
	var head map[string]any
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, p.errorf("this is no object: it needs apiVersion, kind and metadata")
	}
	if head == nil {
		return nil, nil
	}
	for _, field := range []string{"apiVersion", "kind"} {
		if text, ok := head[field].(string); !ok || text == "" {
			return nil, p.errorf("%s is missing", field)
		}
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(text); err != nil {
		return nil, p.errorf("%v", err)
	}
	source := fmt.Sprintf("%s:%d", p.file, p.line)
	all := []Document{{Source: source, Object: object, part: p}}
	if object.IsList() {
		list, err := object.ToList()
		if err != nil {
			return nil, p.errorf("%v", err)
		}
		all = all[:0]
		for i := range list.Items {
			all = append(all, Document{Source: source, Object: &list.Items[i], part: p, item: fmt.Sprintf("items[%d].", i)})
		}
	}
	for _, one := range all {
		name := one.Object.GetName()
		if name == "" {
			hint := ""
			if one.Object.GetGenerateName() != "" {
				hint = ": generateName is for kubectl create alone"
			}
			return nil, fmt.Errorf("%s: %s without metadata.name%s", one.At("metadata.name"), one.Object.GetKind(), hint)
		}
		// Names become names of files.
		if problems := content.IsPathSegmentName(name); len(problems) > 0 {
			return nil, fmt.Errorf("%s: metadata.name %q %s", one.At("metadata.name"), name, problems[0])
		}
	}
	return all, nil
}
