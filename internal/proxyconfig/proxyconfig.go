// Package proxyconfig is the state of a proxy pod: the agent serves it, the kubectl plugin shows it.
package proxyconfig

import (
	"cmp"
	"strings"
	"time"

	"gateway/internal/model"
)

// Path is where the agent answers, on its port for health and metrics, to requests from within its pod alone.
const Path = "/proxy-config"

// Config is what a proxy pod runs.
type Config struct {
	// Live is the version by which HAProxy answers; nil if that is not known.
	Live *Version `json:"live,omitempty"`
	// Wanted is the newest that the agent has seen; nil if there is none.
	Wanted *Version `json:"wanted,omitempty"`
	// Problem says what keeps the wanted version from being live; "" if nothing does.
	Problem string `json:"problem,omitempty"`
	// Configuration is the identifier of the configuration that HAProxy runs; "" if it is not known.
	Configuration string `json:"configuration,omitempty"`
	// Reloads are the last ones, the newest first, also those that HAProxy refused.
	Reloads []Reload `json:"reloads"`
	// HAProxy is the state that HAProxy reports; nil if it does not answer.
	HAProxy *HAProxy `json:"haproxy,omitempty"`
}

// Version identifies what proxies run, without endpoints.
type Version struct {
	// Hash is of the content: proxies that run the same have the same.
	Hash string `json:"hash"`
	// Origins are the objects that it was made from, the one of the kind Gateway first.
	Origins []model.Origin `json:"origins"`
}

// Generation is the Gateway's generation; 0 if there is no version.
func (v *Version) Generation() int64 {
	if v == nil || len(v.Origins) == 0 {
		return 0
	}
	return v.Origins[0].Generation
}

// Reload is a configuration that HAProxy was told to load, by which a new worker takes the place of the old one.
type Reload struct {
	Time          time.Time `json:"time"`
	Version       *Version  `json:"version"`
	Configuration string    `json:"configuration"`
	Reason        string    `json:"reason"`
	// Failure says why HAProxy does not run it; "" if it does.
	Failure string `json:"failure,omitempty"`
}

// HAProxy is the present worker and those before it.
type HAProxy struct {
	Version string `json:"version"`
	PID     int    `json:"pid"`
	// Started is when the worker was started, and StartedOn the configuration it was started on; it has been changed
	// since, if it is not the one that runs.
	Started   time.Time `json:"started"`
	StartedOn string    `json:"startedOn"`
	// Sessions are the connections of clients that are open, and Requests the requests, and connections to TCP and TLS
	// listeners, since the start.
	Sessions int64 `json:"sessions"`
	Requests int64 `json:"requests"`
	// OldWorkers go on until their connections have ended.
	OldWorkers []OldWorker `json:"oldWorkers"`
	Servers    []Server    `json:"servers"`
}

// OldWorker is a worker that takes no new connections any more.
type OldWorker struct {
	PID int `json:"pid"`
	// Started is when it was started, to the second.
	Started time.Time `json:"started"`
	// Sessions are the connections that are left.
	Sessions int64 `json:"sessions"`
}

// Server is an endpoint that HAProxy sends requests to.
type Server struct {
	// Backend is the section of haproxy.cfg it is in.
	Backend string `json:"backend"`
	Address string `json:"address"`
	// State is in HAProxy's words: "no check" of a server that takes requests and whose health is not checked, UP,
	// DOWN, DRAIN, MAINT.
	State string `json:"state"`
	// Backup reports whether it takes requests only while no other server of the backend can.
	Backup bool `json:"backup,omitempty"`
	// Check is the outcome of the last health check; "" if there was none.
	Check string `json:"check,omitempty"`
	// Sessions are the requests and connections on it now, Total the ones since it was added, and Errors the ones that it
	// did not take or answer.
	Sessions int64 `json:"sessions"`
	Total    int64 `json:"total"`
	Errors   int64 `json:"errors"`
}

// IsUsable reports whether HAProxy sends requests there.
func (s Server) IsUsable() bool { return s.State == "no check" || strings.HasPrefix(s.State, "UP") }

// Compare sorts by backend and address.
func (s Server) Compare(other Server) int {
	return cmp.Or(strings.Compare(s.Backend, other.Backend), strings.Compare(s.Address, other.Address))
}
