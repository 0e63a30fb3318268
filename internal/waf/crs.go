package waf

import (
	_ "embed" // for crsRules
	"encoding/json"
	"fmt"
	"slices"
	"sync"
)

// crsRules has the IDs of the Core Rule Set that filters may leave out. A test of gateway-waf writes it.
//
//go:embed crs.json
var crsRules []byte

var crsIDs = sync.OnceValue(func() []int32 {
	var ids []int32
	if err := json.Unmarshal(crsRules, &ids); err != nil {
		panic(err) // which the test of the file prevents
	}
	return ids
})

// Problems says which exclusions have no effect, since the Core Rule Set has no such rule.
func (s Settings) Problems() []string {
	var problems []string
	for _, excluded := range s.Excluded {
		if _, ok := slices.BinarySearch(crsIDs(), excluded.Rule); !ok {
			problem := fmt.Sprintf("WAF excludes rule %d, which the Core Rule Set does not have: correct the ID, or remove it", excluded.Rule)
			if !slices.Contains(problems, problem) {
				problems = append(problems, problem)
			}
		}
	}
	return problems
}
