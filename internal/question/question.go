// Package question has the settings of a filter travel with the questions that HAProxy asks about requests. So the
// program that answers needs no API server, and an edit counts at once.
package question

import (
	"encoding/base64"
	"encoding/json"
	"strings"
)

// Path returns the settings as the path of a question.
func Path(settings any) string {
	text, err := json.Marshal(settings)
	if err != nil {
		panic(err) // which it does for no texts and numbers
	}
	return "/" + base64.RawURLEncoding.EncodeToString(text)
}

// Parse reads the settings of a question's path.
func Parse(path string, settings any) error {
	text, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(path, "/"))
	if err != nil {
		return err
	}
	return json.Unmarshal(text, settings)
}
