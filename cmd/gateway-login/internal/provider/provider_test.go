package provider

import (
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
