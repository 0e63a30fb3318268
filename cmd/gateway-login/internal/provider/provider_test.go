package provider

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestRefusedAddresses: a filter leads to no address that keys of tokens are not fetched from.
func TestRefusedAddresses(t *testing.T) {
	var providers Providers
	if _, err := providers.Find(t.Context(), "https://127.0.0.1:1", nil); err == nil || !strings.Contains(err.Error(), "not fetched from 127.0.0.1") {
		t.Errorf("got %v", err)
	}
}

type failing struct{}

func (failing) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("there is no network")
}

// TestManyProviders: of many providers, those are known that somebody asked for last.
func TestManyProviders(t *testing.T) {
	providers := Providers{NewClient: func(string) *http.Client { return &http.Client{Transport: failing{}} }}
	for i := range 3 * maxKept {
		for _, issuer := range []string{fmt.Sprintf("https://%d.example.com", i), "https://id.example.com"} {
			if _, err := providers.Find(t.Context(), issuer, nil); err == nil {
				t.Errorf("%s answers", issuer)
			}
		}
	}
	if len(providers.all) != maxKept || providers.all["https://id.example.com\n"] == nil {
		t.Errorf("%d providers are known: %v", len(providers.all), providers.all)
	}
}
