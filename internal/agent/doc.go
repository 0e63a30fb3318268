// Package agent is the loop that runs beside HAProxy in a data-plane pod: it makes HAProxy run by one Gateway and the
// endpoints of its Services, and reports which version of that is live.
//
// In: objects and endpoints from a Source (source.go; watch.go has that of an API server), certificates without their
// keys, and what the running HAProxy says of itself. Out: files, commands on HAProxy's sockets, this pod's
// GatewayProxy, and health and metrics over HTTP.
//
// One goroutine, the loop, owns everything about HAProxy. A pass of it
//
//   - observes (observe.go): inputs are what was observed, a configuration is what they compile to (configuration.go),
//   - decides (decide.go): from the configuration that is wanted and the state, what is known of HAProxy (state.go), to
//     an action,
//   - acts (act.go): on the disk (store.go) and on HAProxy,
//   - reports what runs (report.go, probes.go, proxyconfig.go).
//
// To compile and to decide are pure. Before a reload, the files are written. A change that needs none goes to HAProxy
// first, because to write the files of thousands of routes takes longer, and they follow a moment later. What HAProxy
// runs is reported once it is on the disk. A HAProxy that restarts in between starts on what was there before, and is
// told the rest again. Without an API server nothing changes and traffic flows.
package agent
