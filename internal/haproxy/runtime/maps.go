package runtime

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/plan"
)

// ErrNoMap is returned if the configuration of HAProxy has no such map.
var ErrNoMap = errors.New("HAProxy does not have the map")

// ReplaceMap replaces the entries of the map that HAProxy knows by the file's path. No request sees a mixture. The file
// itself is not touched. On an error the map stays unchanged.
//
// HAProxy's management guide: "prepare map" allocates "a new version number in map <map>", entries "may be added with a
// specific version number [and] will not match until a commit map operation", which makes "all changes made to version
// <ver> of map <map>" at once and deletes "all past versions".
func (w *Worker) ReplaceMap(ctx context.Context, file string, entries []ir.MapEntry) error {
	if !isWord(file) {
		return fmt.Errorf("failed to replace map: %q is not a path HAProxy can be told", file)
	}
	version, err := w.prepareMap(ctx, file)
	if err != nil {
		return fmt.Errorf("failed to prepare map %s: %w", file, err)
	}
	if err := w.addEntries(ctx, file, "@"+version+" ", entries); err != nil {
		return err
	}
	if err := w.expectSilence(ctx, "commit map @"+version+" "+file+"\n"); err != nil {
		return fmt.Errorf("failed to commit map %s: %w", file, err)
	}
	return nil
}

// AddEntries adds entries to the map, with few commands. They are sent as a payload, in which nothing is special.
func (w *Worker) AddEntries(ctx context.Context, file string, entries []ir.MapEntry) error {
	return w.addEntries(ctx, file, "", entries)
}

// addEntries adds entries to a version of the map: "@7 ", or "" for the one that is in use.
func (w *Worker) addEntries(ctx context.Context, file, version string, entries []ir.MapEntry) error {
	payloads, err := payloads(entries, maxCommand-len(addMap(version, file, "")))
	for i := 0; i < len(payloads) && err == nil; i++ {
		err = w.expectSilence(ctx, addMap(version, file, payloads[i]))
	}
	if err != nil {
		return fmt.Errorf("failed to add to map %s: %w", file, err)
	}
	return nil
}

// EditMap changes entries of the map one after the other, with few commands. On an error, some may have been changed.
//
// The guide: "set map" modifies "the value corresponding to each key <key>", and "del map" deletes "all the map entries
// corresponding to the key <key>".
func (w *Worker) EditMap(ctx context.Context, file string, edits []plan.Edit) error {
	for len(edits) > 0 {
		n, isNew := 1, edits[0].Old == ""
		for n < len(edits) && (edits[n].Old == "") == isNew {
			n++
		}
		var err error
		if isNew {
			entries := make([]ir.MapEntry, n)
			for i, edit := range edits[:n] {
				entries[i] = ir.MapEntry{Key: edit.Key, Value: edit.New}
			}
			err = w.AddEntries(ctx, file, entries)
		} else {
			err = w.changeEntries(ctx, file, edits[:n])
		}
		if err != nil {
			return fmt.Errorf("failed to edit map %s from %q on: %w", file, edits[0].Key, err)
		}
		edits = edits[n:]
	}
	return nil
}

// DeleteKeys deletes the entries of these keys from the map.
func (w *Worker) DeleteKeys(ctx context.Context, file string, keys []string) error {
	edits := make([]plan.Edit, len(keys))
	for i, key := range keys {
		edits[i] = plan.Edit{Key: key}
	}
	return w.changeEntries(ctx, file, edits)
}

// changeEntries changes and deletes entries, many with one command line.
func (w *Worker) changeEntries(ctx context.Context, file string, edits []plan.Edit) error {
	lines, err := changeCommands(file, edits)
	for i := 0; i < len(lines) && err == nil; i++ {
		err = w.expectSilence(ctx, lines[i])
	}
	return err
}

// changeCommands returns the command lines that change and delete entries.
func changeCommands(file string, edits []plan.Edit) ([]string, error) {
	var lines []string
	for _, edit := range edits {
		command := "del map " + file + " " + edit.Key
		if edit.New != "" {
			command = "set map " + file + " " + edit.Key + " " + edit.New
		}
		if !isWord(edit.Key) || edit.New != "" && !isWord(edit.New) || len(command) >= maxCommand {
			return nil, fmt.Errorf("HAProxy cannot be told the entry %q %q", edit.Key, edit.New)
		}
		if last := len(lines) - 1; last >= 0 && len(lines[last])+len(";")+len(command) < maxCommand {
			lines[last] += ";" + command
		} else {
			lines = append(lines, command)
		}
	}
	for i := range lines {
		lines[i] += "\n"
	}
	return lines, nil
}

// prepareMap returns the version of the map that entries can be added to. The answer is "New version created: 7".
func (w *Worker) prepareMap(ctx context.Context, file string) (string, error) {
	reply, err := w.exchange(ctx, "prepare map "+file+"\n")
	if err != nil {
		return "", err
	}
	if strings.HasPrefix(reply, "Unknown map identifier") {
		return "", ErrNoMap
	}
	version, ok := strings.CutPrefix(reply, "New version created: ")
	if !ok || !isWord(version) {
		return "", errors.New(firstLine(reply))
	}
	return version, nil
}

// addMap is the command that adds entries. The guide: "the first line needs to end with the "<<\n" pattern. The next
// lines will be treated as the payload [...]. To validate a command with a payload, it needs to end with an empty
// line." Nothing is escaped in a payload: an empty line in the middle of it would make commands of the rest.
func addMap(version, file, payload string) string {
	return "add map " + version + file + " <<\n" + payload + "\n"
}

// payloads splits the entries into payloads of at most limit bytes, one "key value" a line.
func payloads(entries []ir.MapEntry, limit int) ([]string, error) {
	var all []string
	var payload strings.Builder
	for _, entry := range entries {
		if !isKey(entry.Key) || !isValue(entry.Value) {
			return nil, fmt.Errorf("a map cannot hold the entry %q %q", entry.Key, entry.Value)
		}
		line := entry.Key + " " + entry.Value + "\n"
		if len(line) > limit {
			return nil, fmt.Errorf("entry of %d bytes is longer than HAProxy's buffer", len(line))
		}
		if payload.Len()+len(line) > limit {
			all = append(all, payload.String())
			payload.Reset()
		}
		payload.WriteString(line)
	}
	if payload.Len() > 0 {
		all = append(all, payload.String())
	}
	return all, nil
}

// isKey reports whether s means the same key in a payload as in a map file, where a line with "#" is a comment.
func isKey(s string) bool {
	return s != "" && s[0] != '#' && !strings.ContainsAny(s, " \t\r\n\x00")
}

// isValue reports whether s means the same value in a payload as in a map file, which strips spaces around it.
func isValue(s string) bool {
	return s != "" && s == strings.TrimSpace(s) && !strings.ContainsAny(s, "\r\n\x00")
}
