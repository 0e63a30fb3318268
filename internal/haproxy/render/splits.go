package render

import (
	"fmt"
	"strconv"
	"strings"

	"gateway/internal/routing"
)

// A weighted split is made by lookups: HAProxy draws a number of splitDigits hexadecimal digits, and the map says for
// every prefix of these digits whose share it is in. The numbers below 16^splitDigits are divided among the weights,
// and each share, an interval, is written as the prefixes that cover it, at most 15 for each end and digit.
//
// The prefixes belong to the weights and not to the backends, so splits of the same proportions share them.
//
// With 16 weights up to 1,000,000 the sum is below 16^6, so every weight, however small, has a share.
const splitDigits = 6

const splitSize = 1 << (4 * splitDigits)

// share is a prefix of hexadecimal digits and the index of the weight that it is a share of.
type share struct {
	Prefix string
	Index  int
}

// shares divides all numbers of splitDigits hexadecimal digits among the weights, which are greater than zero.
func shares(weights []int32) []share {
	total := int64(0)
	for _, weight := range weights {
		total += int64(weight)
	}
	var all []share
	sum, low := int64(0), int64(0)
	for i, weight := range weights {
		sum += int64(weight)
		high := sum * splitSize / total
		for _, prefix := range hexPrefixes(low, high) {
			all = append(all, share{Prefix: prefix, Index: i})
		}
		low = high
	}
	return all
}

// hexPrefixes returns the fewest prefixes, in order, that stand for all numbers of splitDigits hexadecimal digits from
// low up to, not including, high.
func hexPrefixes(low, high int64) []string {
	var prefixes []string
	for low < high {
		// The largest block of a power of 16 that starts at low and ends before high.
		size, length := int64(1), splitDigits
		for length > 0 && low%(size*16) == 0 && low+size*16 <= high {
			size, length = size*16, length-1
		}
		digits := fmt.Sprintf("%0*X", splitDigits, low)
		prefixes = append(prefixes, digits[:length])
		low += size
	}
	return prefixes
}

// proportions returns the weights of targets, divided by what they have in common.
func proportions(targets []routing.Target) []int32 {
	divisor := int32(0)
	for _, target := range targets {
		divisor = gcd(divisor, target.Weight)
	}
	weights := make([]int32, len(targets))
	for i, target := range targets {
		weights[i] = target.Weight / divisor
	}
	return weights
}

func gcd(a, b int32) int32 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func joinWeights(weights []int32) string {
	words := make([]string, len(weights))
	for i, weight := range weights {
		words[i] = strconv.Itoa(int(weight))
	}
	return strings.Join(words, ",")
}
