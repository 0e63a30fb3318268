package model

import "gateway/internal/waf"

// WAF refuses requests that look like attacks.
type WAF struct {
	// Settings has what gateway-waf needs to know.
	Settings waf.Settings
	// MaxBody is how many bytes the body of a request may have.
	MaxBody int64
}
