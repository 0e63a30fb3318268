package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDocumentsNameTests: where a document links to a test, the test exists.
func TestDocumentsNameTests(t *testing.T) {
	link := regexp.MustCompile(`\[((?:Test|Fuzz)[A-Za-z0-9]+)\]\(([^)]+)\)`)
	documents, err := filepath.Glob("docs/*.md")
	if err != nil || len(documents) == 0 {
		t.Fatalf("no documents found (%v)", err)
	}
	links := 0
	for _, document := range documents {
		content, err := os.ReadFile(document)
		if err != nil {
			t.Fatalf("failed to read a document: %v", err)
		}
		for _, match := range link.FindAllStringSubmatch(string(content), -1) {
			links++
			code, err := os.ReadFile(filepath.Join(filepath.Dir(document), match[2]))
			if err != nil {
				t.Errorf("%s: %v", document, err)
			} else if !strings.Contains(string(code), "\nfunc "+match[1]+"(") {
				t.Errorf("%s: %s has no %s", document, match[2], match[1])
			}
		}
	}
	if links < 40 {
		t.Errorf("found only %d links", links)
	}
}
