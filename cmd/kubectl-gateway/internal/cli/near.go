package cli

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
