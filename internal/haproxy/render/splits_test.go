package render

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"gateway/internal/haproxy/ir"
	"gateway/internal/routing"
)

// Who may write one route of a Gateway must not be able to give what is his the name of what is somebody else's. These
// two have the same FNV-1a of 64 bits.
func TestNamesCannotBeMade(t *testing.T) {
	if one, other := "8yn0iYCKYHlIj4-BwPqk", "GReLUrM4wMqfg9yzV3KQ"; ir.ContentName(one) == ir.ContentName(other) {
		t.Errorf("%q and %q have the same name", one, other)
	}
}

func TestHexPrefixes(t *testing.T) {
	tests := map[string]struct {
		low, high int64
		want      []string
	}{
		"everything":       {0, splitSize, []string{""}},
		"nothing":          {5, 5, nil},
		"a half":           {0, splitSize / 2, []string{"0", "1", "2", "3", "4", "5", "6", "7"}},
		"one number":       {0xABCDEF, 0xABCDF0, []string{"ABCDEF"}},
		"across a digit":   {0x00000E, 0x000012, []string{"00000E", "00000F", "000010", "000011"}},
		"blocks of a size": {0xEF0000, splitSize, []string{"EF", "F"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := hexPrefixes(test.low, test.high); !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestShares adds up how many numbers each weight got: its share to within one, and all numbers exactly once.
func TestShares(t *testing.T) {
	many := make([]int32, 16)
	for i := range many {
		many[i] = 1000000
	}
	many[7] = 1
	for _, weights := range [][]int32{{1}, {1, 1}, {90, 10}, {1, 2, 3, 5, 7, 11, 13}, {1000000, 1}, {1, 1000000}, many} {
		t.Run(fmt.Sprint(weights), func(t *testing.T) {
			got, total := make([]int64, len(weights)), int64(0)
			next := int64(0)
			for _, share := range shares(weights) {
				low, _ := strconv.ParseInt(share.Prefix+strings.Repeat("0", splitDigits-len(share.Prefix)), 16, 64)
				size := int64(1) << (4 * (splitDigits - len(share.Prefix)))
				if low != next {
					t.Fatalf("prefix %q starts at %X, want %X", share.Prefix, low, next)
				}
				next += size
				got[share.Index] += size
			}
			for _, weight := range weights {
				total += int64(weight)
			}
			if next != splitSize {
				t.Errorf("the prefixes end at %X", next)
			}
			for i, weight := range weights {
				want := int64(weight) * splitSize / total
				if got[i] < max(want-1, 1) || got[i] > want+1 {
					t.Errorf("weight %d of %d got %d numbers, want %d", weight, total, got[i], want)
				}
			}
		})
	}
}

func TestProportions(t *testing.T) {
	targets := []routing.Target{{Weight: 90}, {Weight: 10}, {Weight: 100}}
	if got := joinWeights(proportions(targets)); got != "9,1,10" {
		t.Errorf("got %s, want 9,1,10", got)
	}
}

// FuzzShares: each number of splitDigits digits is in one share, and each weight has one.
func FuzzShares(f *testing.F) {
	f.Add([]byte{0, 1, 0, 1})
	f.Add([]byte{0xff, 0xff, 0, 1, 0, 7})
	f.Fuzz(func(t *testing.T, data []byte) {
		var weights []int32
		for ; len(data) >= 2 && len(weights) < 16; data = data[2:] {
			weights = append(weights, 1+15*(int32(data[0])<<8|int32(data[1])))
		}
		if len(weights) == 0 {
			return
		}
		next, seen := int64(0), map[int]bool{}
		for _, share := range shares(weights) {
			low, err := strconv.ParseInt(share.Prefix+strings.Repeat("0", splitDigits-len(share.Prefix)), 16, 64)
			if err != nil || low != next {
				t.Fatalf("weights %v: the share %+v starts at %X, want %X (%v)", weights, share, low, next, err)
			}
			next += 1 << (4 * (splitDigits - len(share.Prefix)))
			seen[share.Index] = true
		}
		if next != splitSize || len(seen) != len(weights) {
			t.Errorf("weights %v: the shares end at %X, and are of %d weights", weights, next, len(seen))
		}
	})
}
