package render

import "gateway/internal/haproxy/ir"

// watchedLog hands the agent the lines of the access log about watched routes: see package routetrace. Other requests
// have the level info or notice, which this log does not take. So HAProxy makes no second line for them, and a watched
// request has the same line as in the access log.
const watchedLog = "log ring@watched len 16384 format raw local0 warning"

// addWatched adds where these lines wait, so that no request waits for the agent.
func (r *Renderer) addWatched() {
	r.section(ir.ReloadSettings, "ring watched",
		"format raw", "maxlen 16384", "size 1048576", "timeout connect 1s", "timeout server 10s",
		"server agent unix@"+r.in.Paths.WatchedSocket()+" log-proto octet-count",
	)
}

// watchLine sets the level of a request that meets a condition, and whose route is watched.
func watchLine(condition string) string {
	return "http-request set-log-level warning if " + condition + " { var(txn.hit),field(2,|),map_str(" + ir.WatchedMap + ") -m found }"
}
