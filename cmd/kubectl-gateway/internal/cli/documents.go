package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Files are what -f and -R name.
type Files struct {
	// Paths are files, directories, and "-" for standard input.
	Paths     []string
	Recursive bool
}

// Document is one object of a file.
type Document struct {
	// Source is the file and the line where the document begins.
	Source string
	Object *unstructured.Unstructured
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
	var all []Document
	var errs []error
	for _, path := range f.Paths {
		files, err := f.expand(path)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			content, err := read(file, stdin)
			if err != nil {
				return nil, fmt.Errorf("failed to read %s: %w", file, cause(err))
			}
			documents, err := parse(file, content)
			all, errs = append(all, documents...), append(errs, err)
		}
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
		files, err := f.expand(path)
		if err != nil {
			return nil, err
		}
		all = append(all, files...)
	}
	return all, nil
}

// expand returns the files that a path stands for.
func (f Files) expand(path string) ([]string, error) {
	if path == "-" {
		return []string{path}, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("failed to read %s: %w", path, cause(err))
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	var files []string
	err = filepath.WalkDir(path, func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && file != path && !f.Recursive:
			return fs.SkipDir
		case !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(file)):
			files = append(files, file)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("failed to read %s: %w", path, err)
	}
	return files, nil
}

// cause is the reason of an error about a file that the message names already.
func cause(err error) error {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		return pathError.Err
	}
	return err
}

func read(file string, stdin io.Reader) ([]byte, error) {
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
	for _, part := range split(text) {
		source := fmt.Sprintf("%s:%d", file, part.line)
		objects, err := parseDocument(part)
		var syntax *syntaxError
		switch {
		case errors.As(err, &syntax):
			errs = append(errs, fmt.Errorf("%s:%d: %w", file, syntax.line, err))
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", source, err))
		}
		for _, object := range objects {
			// Names become names of files.
			if problems := content.IsPathSegmentName(object.GetName()); len(problems) > 0 {
				errs = append(errs, fmt.Errorf("%s: metadata.name %q %s", source, object.GetName(), problems[0]))
			}
			all = append(all, Document{Source: source, Object: object})
		}
	}
	return all, errors.Join(errs...)
}

// part is a YAML document, from a line on.
type part struct {
	line int
	text []byte
}

// split returns the YAML documents of a file.
func split(content []byte) []part {
	parts := []part{{line: 1}}
	number := 0
	for line := range bytes.Lines(content) {
		number++
		if rest, ok := bytes.CutPrefix(line, []byte("---")); ok && (len(rest) == 0 || bytes.ContainsAny(rest[:1], " \t\r\n")) {
			parts = append(parts, part{line: number + 1})
			continue
		}
		last := &parts[len(parts)-1]
		last.text = append(last.text, line...)
	}
	return parts
}

// syntaxError says what is wrong with the YAML of a file, and in which line.
type syntaxError struct {
	line    int
	message string
}

func (e *syntaxError) Error() string { return e.message }

var yamlLine = regexp.MustCompile(`^yaml: (?:unmarshal errors: )?line (\d+): `)

// laterLines is where the next problem begins, if there are several.
var laterLines = regexp.MustCompile(` line (\d+):`)

// newSyntaxError takes the line out of what the parser says. Without one, it is that of the document.
func newSyntaxError(line int, message string) *syntaxError {
	if match := yamlLine.FindStringSubmatch(message); match != nil {
		line, _ = strconv.Atoi(match[1])
		message = laterLines.ReplaceAllString(message[len(match[0]):], "; line $1:")
	}
	return &syntaxError{line, message}
}

// json returns the JSON of a document. JSON is taken as it is, as kubectl does: a YAML parser refuses some of its
// characters and escapes.
func (p part) json() ([]byte, error) {
	if json.Valid(p.text) {
		twice, err := strictjson.UnmarshalStrict(p.text, new(any))
		if err = errors.Join(append(twice, err)...); err != nil {
			return nil, newSyntaxError(p.line, oneLine(err.Error()))
		}
		return p.text, nil
	}
	// The empty lines make the parser count lines as the file has them.
	text := append(bytes.Repeat([]byte("\n"), p.line-1), p.text...)
	content, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, newSyntaxError(p.line, oneLine(strings.TrimPrefix(err.Error(), "error converting YAML to JSON: ")))
	}
	return content, nil
}

// parseDocument returns the objects of a document: none if it is empty, those of a List.
func parseDocument(p part) ([]*unstructured.Unstructured, error) {
	content, err := p.json()
	if err != nil {
		return nil, err
	}
	var head map[string]any
	if err := json.Unmarshal(content, &head); err != nil {
		return nil, errors.New("this is no object: it needs apiVersion, kind and metadata")
	}
	if head == nil {
		return nil, nil
	}
	for _, field := range []string{"apiVersion", "kind"} {
		if text, ok := head[field].(string); !ok || text == "" {
			return nil, fmt.Errorf("%s is missing", field)
		}
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(content); err != nil {
		return nil, errors.New(oneLine(err.Error()))
	}
	objects := []*unstructured.Unstructured{object}
	if object.IsList() {
		list, err := object.ToList()
		if err != nil {
			return nil, errors.New(oneLine(err.Error()))
		}
		objects = objects[:0]
		for i := range list.Items {
			objects = append(objects, &list.Items[i])
		}
	}
	for _, object := range objects {
		if object.GetName() == "" {
			return nil, fmt.Errorf("%s without metadata.name", object.GetKind())
		}
	}
	return objects, nil
}
