package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"gateway/internal/haproxy/ir"
)

// turn is what was seen in one turn of a subject.
type turn struct {
	// cpu is the proxy's CPU time for a request.
	cpu time.Duration
	// opened is how many connections to backends were opened for 1,000 requests.
	opened float64
}

// measure gives every subject its turns. Each round begins with another one, so that none always follows the same.
func measure(site *site, subjects []*subject, o options) error {
	for round := range o.rounds {
		for i := range subjects {
			s := subjects[(round+i)%len(subjects)]
			t, err := s.turn(site, o)
			if err != nil {
				return fmt.Errorf("failed to measure %q: %w", s.name, err)
			}
			s.turns = append(s.turns, t)
		}
	}
	return nil
}

func (s *subject) turn(site *site, o options) (turn, error) {
	clients, err := s.load.connect()
	defer func() {
		for _, client := range clients {
			_ = client.close()
		}
	}()
	if err != nil {
		return turn{}, err
	}
	hung, err := s.hang(site)
	defer func() {
		for _, conn := range hung {
			_ = conn.Close()
		}
	}()
	if err != nil {
		return turn{}, err
	}
	if err := s.load.send(clients, o.warmup); err != nil {
		return turn{}, err
	}
	if err := s.watch(ir.MapEntry{Key: "route-0", Value: "1"}); err != nil {
		return turn{}, err
	}
	cpu, opened := s.process.cpu(), site.opened.Load()
	asked := s.ask()
	if err := errors.Join(s.load.send(clients, o.requests), <-asked); err != nil {
		return turn{}, err
	}
	used := s.process.cpu() - cpu
	if err := s.watch(); err != nil {
		return turn{}, err
	}
	return turn{cpu: used / time.Duration(o.requests), opened: 1000 * float64(site.opened.Load()-opened) / float64(o.requests)}, nil
}

// printCosts prints the table of CPU times: medians of the turns, and of the ratios of turns of the same round.
func printCosts(subjects []*subject) {
	fmt.Println("| proxy | us CPU a request | ratio | middle half of the ratios | connections to backends, per 1,000 requests |")
	fmt.Println("|---|---|---|---|---|")
	for _, s := range subjects {
		var cpus []time.Duration
		var opened []float64
		for _, t := range s.turns {
			cpus, opened = append(cpus, t.cpu), append(opened, t.opened)
		}
		ratios := s.ratios(find(subjects, s.baseline))
		fmt.Printf("| %s | %.1f | %.2f | %.2f to %.2f | %.1f |\n", s.name,
			float64(quantile(cpus, 0.5))/1000, quantile(ratios, 0.5), quantile(ratios, 0.25), quantile(ratios, 0.75), quantile(opened, 0.5))
	}
}

// ratios are those of turns to the ones of another subject in the same round.
func (s *subject) ratios(base *subject) []float64 {
	ratios := make([]float64, len(s.turns))
	for i, t := range s.turns {
		ratios[i] = float64(t.cpu) / float64(base.turns[i].cpu)
	}
	return ratios
}

// find returns the subject called name, or the first one if that is not measured.
func find(subjects []*subject, name string) *subject {
	return subjects[max(0, slices.IndexFunc(subjects, func(s *subject) bool { return s.name == name }))]
}

func quantile[T cmp.Ordered](values []T, q float64) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[int(q*float64(len(sorted)-1)+0.5)]
}
