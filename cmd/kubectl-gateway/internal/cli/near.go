package cli

import "strings"

// Nearest returns the name that takes the fewest edits to become another one; "": there are none.
func Nearest(name string, names []string) string {
	best, least := "", 0
	for _, other := range names {
		if edits := distance(name, other); best == "" || edits < least {
			best, least = other, edits
		}
	}
	return best
}

// Similar returns the name that another one may be meant for: the one with the fewest edits, if these are less than
// half of it, or one that is longer or shorter by a word. Case and punctuation do not count.
func Similar(name string, names []string) string {
	letters := strings.NewReplacer("_", "", "-", "", ".", "", " ", "")
	plain := strings.ToLower(letters.Replace(name))
	best, least := "", len(plain)/2+1
	for _, other := range names {
		lower := strings.ToLower(letters.Replace(other))
		edits := distance(plain, lower)
		if len(plain) > 3 && (strings.HasPrefix(lower, plain) || strings.HasSuffix(lower, plain) || strings.HasPrefix(plain, lower) && len(lower) > 3) {
			edits = min(edits, 1)
		}
		if edits < least {
			best, least = other, edits
		}
	}
	return best
}

// distance returns how many characters have to be inserted, removed or replaced to make one name of another.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		above := row[0]
		row[0]++
		for j := range len(b) {
			replaced := above
			if a[i] != b[j] {
				replaced++
			}
			above = row[j+1]
			row[j+1] = min(replaced, row[j]+1, above+1)
		}
	}
	return row[len(b)]
}
