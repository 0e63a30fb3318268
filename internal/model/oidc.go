package model

import "gateway/internal/login"

// OIDC lets users through who have logged in at a provider.
type OIDC struct {
	// Login has what gateway-login needs to know.
	Login login.Settings
	// Headers tell the backend claims of the ID token, sorted by name.
	Headers []ClaimHeader
	// Claims are the claims that the ID token must have, sorted.
	Claims []RequiredClaim
}
