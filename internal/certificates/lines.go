package certificates

import (
	"fmt"
	"strings"
)

// maxTold is how many lines a message names.
const maxTold = 5

// ParseLines calls add for the lines of a file of a Secret that are neither empty nor comments. add returns the
// problem of a line, "" if there is none. problem names these lines, by their numbers and not their content; "" if all
// can be used. A line holds a thing, such as a key, which can do something: "be used".
func ParseLines(file string, content []byte, thing, do string, add func(line string) (wrong string)) (problem string) {
	good, all := 0, []string(nil)
	for i, line := range strings.Split(string(content), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if wrong := add(line); wrong != "" {
			all = append(all, fmt.Sprintf("line %d %s", i+1, wrong))
		} else {
			good++
		}
	}
	told := strings.Join(all[:min(len(all), maxTold)], ", ")
	if len(all) > maxTold {
		told += fmt.Sprintf(", and %d more lines", len(all)-maxTold)
	}
	switch {
	case good+len(all) == 0:
		return file + " holds no " + thing
	case good == 0:
		return fmt.Sprintf("no %s in %s can %s: %s", thing, file, do, told)
	case told != "":
		return fmt.Sprintf("some %ss in %s cannot %s: %s", thing, file, do, told)
	}
	return ""
}
