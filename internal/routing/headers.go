package routing

// Request headers that the proxies remove before they look for a route, as regular expressions for names in lower case.
// Backends may believe them. The proxies also remove every header whose name has another character than letters, digits
// and "-": some backends take such a character for "-".
const (
	// RemovedHeaders are removed whoever sends them: they say what the proxy itself found out, or replace what the
	// rules went by, or they announce trailers, which do not pass.
	RemovedHeaders = `http2-settings|client-cert(?:-chain)?|proxy|trailer|ssl-client-[a-z0-9-]*` +
		`|x-(?:ssl-client-[a-z0-9-]*|original-[a-z0-9-]*|rewrite-url|http-host-override)`
	// ClaimedHeaders say where a request comes from, like Forwarded and X-Forwarded-*. They are kept if a trusted proxy
	// sends them.
	ClaimedHeaders = `forwarded-for|front-end-https|client-ip|true-client-ip|cf-connecting-ip|fastly-client-ip` +
		`|x-(?:forwarded|real-ip|client-ip|cluster-client-ip|scheme|url-scheme)`
)
