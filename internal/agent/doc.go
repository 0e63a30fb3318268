// Package agent is the loop that runs beside HAProxy in a proxy pod. It makes HAProxy serve one Gateway and the
// endpoints of its Services, and reports the live version.
//
// In: objects and endpoints from a Source (source.go; watch.go has the API server's), certificates without their keys,
// and the state of the running HAProxy. Out: files, commands on HAProxy's sockets, this pod's GatewayProxy, and health
// and metrics over HTTP.
//
// One goroutine, the loop, owns everything about HAProxy. A pass of it
//
//   - observes (observe.go): inputs are what was observed, a configuration is what they compile to (configuration.go),
//   - decides (decide.go): from the wanted configuration and the known state of HAProxy (state.go) to
//     an action,
//   - acts (act.go): on the disk (store.go) and on HAProxy,
//   - reports what runs (report.go, probes.go, proxyconfig.go).
//
// Compiling and deciding are pure. For a reload, the files are written first. For any other change, HAProxy comes
// first, because the files of thousands of routes take longer than the change. The files follow a moment later. What
// HAProxy runs is reported once it is on the disk. If HAProxy restarts in between, it starts on the earlier files, and
// the agent sends the rest again. Without an API server nothing changes and traffic flows.
package agent
