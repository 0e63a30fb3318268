// Package soak lets one Gateway change all the time, under requests, and looks whether memory, descriptors and
// goroutines of operator, agents and HAProxy stay as they are. It runs for as long as SOAK says ("make soak": 30
// minutes) on the one-node cluster, where the operator is deployed.
package soak
