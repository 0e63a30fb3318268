package config

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// A change of few entries of MapFile is made entry by entry, which takes HAProxy and the agent a fraction of the time of a swap.
// That is no swap, so it has to be right at every moment, and for every request:
//
//   - What a request is told of by a name that says what is in it (hits of lists, programs, splits) is there before it, and longer than it.
//   - What requests look for (paths) changes in two steps at most, and after each of them the version does. So a request that
//     met more than one step sees that, and looks again; after its third try, if need be.
//   - Between two steps, every request is answered as before both or as after both. With entries that have no conditions,
//     the order does it: more specific ones are added first and deleted last, and nothing is deleted before all else is done. Where
//     there are conditions, on which it depends whether an entry counts, there is one step only.
//
// Everything else is swapped.

// MapEdit is a change of one entry of a map: Old is "" for one that is added, New for one that is deleted.
type MapEdit struct {
	Key, Old, New string
}

const (
	// maxEdits is up to how many entries are changed one by one: HAProxy looks for those that are not new among all, which takes it a
	// hundredth of a swap each. It is enough for other weights of two backends.
	maxEdits = 200
	// maxSteps is how often the version may change under a request, which tries three times.
	maxSteps = tries - 1
)

// mapEdits returns the edits that lead from one content of MapFile to another, or nothing if it has to be swapped.
func mapEdits(desired, running RouteMap) []MapEdit {
	var before, steps, after []MapEdit
	var version MapEdit
	for _, edit := range differences(desired, running) {
		isChange := edit.Old != "" && edit.New != ""
		switch kind := edit.Key[0]; {
		case edit.Key == versionKey:
			version = edit
		case kind == 'p' || kind == 'r' || isPort(kind):
			steps = append(steps, edit)
		case strings.IndexByte("cftw", kind) < 0 || isChange:
			return nil
		case edit.Old == "":
			before = append(before, edit)
		default:
			after = append(after, edit)
		}
	}
	isConditional := func(edit MapEdit) bool { return strings.HasPrefix(edit.Old, "?") || strings.HasPrefix(edit.New, "?") }
	if version.Old == "" || version.New == "" || len(steps) > maxSteps || len(steps) > 1 && slices.ContainsFunc(steps, isConditional) {
		return nil
	}
	slices.SortFunc(steps, compareSteps)
	edits := before
	for i, step := range steps {
		next := version.New
		if i < len(steps)-1 {
			next = fmt.Sprintf("%s.%d", version.New, i)
		}
		edits = append(edits, step, MapEdit{Key: versionKey, Old: version.Old, New: next})
		version.Old = next
	}
	if len(steps) == 0 {
		edits = append(edits, version)
	}
	return append(edits, after...)
}

// differences returns what differs between two maps. It is nothing if that is too much, or cannot be told HAProxy entry by entry.
func differences(desired, running RouteMap) []MapEdit {
	var edits []MapEdit
	for edit := range desired.differences(running) {
		edits = append(edits, edit)
		if len(edits) > maxEdits || edit.Old != "" && strings.ContainsAny(edit.Key+edit.New, wordEnds) {
			return nil
		}
	}
	return edits
}

// wordEnds are the characters by which HAProxy's command line splits, or that it takes for its own.
const wordEnds = ` ;\'#`

// compareSteps orders additions, most specific first, before changes, before deletions, most specific last.
func compareSteps(a, b MapEdit) int {
	kind := func(edit MapEdit) int {
		switch {
		case edit.Old == "":
			return 0
		case edit.New == "":
			return 2
		}
		return 1
	}
	order := compareSpecificity(a.Key, b.Key)
	if kind(a) == 2 {
		order = -order
	}
	return cmp.Or(cmp.Compare(kind(a), kind(b)), order)
}

// isPort says whether a key begins with a port: then it is of a path of a hostname that is exact.
func isPort(kind byte) bool { return '1' <= kind && kind <= '9' }

// compareSpecificity orders the keys of paths as every request looks for them that may meet both: exact hostnames before wildcards, these
// the longest first, "*" last; then the longest paths first.
func compareSpecificity(a, b string) int {
	return cmp.Or(
		-cmp.Compare(wildcardLength(a), wildcardLength(b)), -cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}

// wildcardLength returns how long the wildcard in a key is; that of an exact hostname passes for longer than all.
func wildcardLength(key string) int {
	if isPort(key[0]) {
		return math.MaxInt
	}
	return len(strings.SplitN(key, "/", 4)[2])
}
