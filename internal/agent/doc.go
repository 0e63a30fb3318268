// Package agent is the loop that runs beside HAProxy in a data-plane pod: it watches one Gateway and the endpoints of its
// namespace, makes HAProxy run by them, and reports which generation is live.
//
// In: the Gateway, Services and EndpointSlices as the API server shows them, certificates without their keys, and what the running
// HAProxy says of itself. Out: files, commands on HAProxy's sockets, this pod's entry in the Gateway's status.proxies, and health and
// metrics over HTTP.
//
// One goroutine, the loop, owns everything about HAProxy. A pass of it gathers (render.go), decides (state.go), and acts
// (load.go); the first two are pure. Files are written before HAProxy is told anything, so a HAProxy that restarts at any
// moment starts on the newest configuration known to be good. Without an API server nothing changes and traffic flows.
package agent
