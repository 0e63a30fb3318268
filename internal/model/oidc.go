package model

import "gateway/internal/login"

// OIDC lets users through who have logged in at a provider.
type OIDC struct {
	// Login has what gateway-login needs to know.
	Login login.Settings
	// Headers tell the backend what the ID token says, sorted by name.
	Headers []ClaimHeader
	// Claims are what the ID token has to have, sorted.
	Claims []RequiredClaim
}
