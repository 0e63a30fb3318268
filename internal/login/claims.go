package login

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// maxDepth is what HAProxy reads of objects and lists within others.
const maxDepth = 16

// mark comes before numbers and booleans, in quotes: see internal/haproxy/filters/claims.go.
const mark = "\x01"

// OfTokens are the claims that sessions do not have: they are about a token.
var OfTokens = []string{"at_hash", "c_hash", "exp", "iat", "jti", "nbf", "nonce"}

// Claims returns the claims of an ID token but OfTokens, as HAProxy's rules for tokens read them.
func Claims(all map[string]json.RawMessage) (string, error) {
	var b strings.Builder
	b.WriteString("[{")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if slices.Contains(OfTokens, name) {
			continue
		}
		if b.Len() > len("[{") {
			b.WriteByte(',')
		}
		if err := writeText(&b, name); err != nil {
			return "", err
		}
		b.WriteByte(':')
		decoder := json.NewDecoder(bytes.NewReader(all[name]))
		decoder.UseNumber()
		if err := writeValue(&b, decoder, true, 0); err != nil {
			return "", fmt.Errorf("a claim cannot be used: %w", err)
		}
	}
	b.WriteString(`},"end"]`)
	return b.String(), nil
}

// writeValue writes the next value. A number or boolean that is a member of an object gets a mark.
func writeValue(b *strings.Builder, from *json.Decoder, isMember bool, depth int) error {
	token, err := from.Token()
	if err != nil {
		return err
	}
	switch token := token.(type) {
	case json.Delim:
		if depth == maxDepth {
			return fmt.Errorf("it has more than %d lists and objects within each other", maxDepth)
		}
		return writeAll(b, from, token, depth+1)
	case string:
		return writeText(b, token)
	case json.Number:
		writeMarked(b, token.String(), isMember)
	case bool:
		writeMarked(b, fmt.Sprint(token), isMember)
	default:
		b.WriteString("null")
	}
	return nil
}

func writeMarked(b *strings.Builder, text string, isMember bool) {
	if isMember {
		text = `"` + mark + text + `"`
	}
	b.WriteString(text)
}

// writeAll writes the rest of an object or list.
func writeAll(b *strings.Builder, from *json.Decoder, begin json.Delim, depth int) error {
	b.WriteRune(rune(begin))
	for i := 0; from.More(); i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		if begin == '{' {
			name, err := from.Token()
			if err != nil {
				return err
			}
			if err := writeText(b, name.(string)); err != nil {
				return err
			}
			b.WriteByte(':')
		}
		if err := writeValue(b, from, begin == '{', depth); err != nil {
			return err
		}
	}
	end, err := from.Token()
	if err != nil {
		return err
	}
	b.WriteRune(rune(end.(json.Delim)))
	return nil
}

// writeText writes a string with the escapes alone that HAProxy knows.
func writeText(b *strings.Builder, text string) error {
	if strings.Contains(text, mark) {
		return errors.New("it has the character U+0001")
	}
	b.WriteByte('"')
	for _, c := range text {
		if c < 0x20 || c == '"' || c == '\\' {
			_, _ = fmt.Fprintf(b, `\u%04x`, c)
		} else {
			b.WriteRune(c)
		}
	}
	b.WriteByte('"')
	return nil
}
