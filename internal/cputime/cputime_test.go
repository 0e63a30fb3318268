package cputime

import (
	"testing"
	"time"
)

// TestOf: work counts, and what is waited for does not, however long it takes.
func TestOf(t *testing.T) {
	const work = 20 * time.Millisecond
	burn := func() {
		for begin := now(); now()-begin < work; {
		}
	}
	if took := Of(burn); took < work {
		t.Errorf("work of %s took %s", work, took)
	}
	ended, others := make(chan struct{}), time.Duration(0)
	took := Of(func() {
		go func() {
			others = Of(burn)
			close(ended)
		}()
		<-ended
	})
	if took >= work || others < work {
		t.Errorf("waiting for %s of work took %s", others, took)
	}
}
