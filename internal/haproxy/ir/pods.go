package ir

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"
)

// The pods of a Gateway count requests together. Each has an id that all know. Each HAProxy has its own numbers for the
// others.
const (
	// MaxPods is how many pods count together.
	MaxPods = 16
	// PodsSection is the name of the section of peers.
	PodsSection = "pods"
	// OwnPeer is what HAProxy calls itself there.
	OwnPeer = "self"
	// PodsKey is the key of the one entry of PodsFile.
	PodsKey = "ids"
	// ConcurrentTable is the section with the table of concurrent requests, which each pod counts for itself.
	ConcurrentTable = "concurrent"
	// PodIDSize is how many bytes a pod's id has.
	PodIDSize = 12

	// WatchedMap has the routes, as the access log names them, whose lines the agent gets. The agent fills it while
	// somebody asks, so there is no file.
	WatchedMap = "virt@watched"
	// StopVariable is a variable of the process that is true once the pod is to stop.
	StopVariable = "proc.stopping"

	peerPrefix = "pod-"
)

// PodID returns the id of the pod called name.
func PodID(name string) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(name)))[:PodIDSize]
}

// PeerName returns HAProxy's name for another pod, by its number from 1.
func PeerName(number int) string { return peerPrefix + strconv.Itoa(number) }

// PeerNumber returns the number of the pod with that name in HAProxy; 0: there is none.
func PeerNumber(name string) int {
	digits, _ := strings.CutPrefix(name, peerPrefix)
	number, err := strconv.Atoi(digits)
	if err != nil || number < 1 || number >= MaxPods || PeerName(number) != name {
		return 0
	}
	return number
}
