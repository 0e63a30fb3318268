// Package compare sends requests to two addresses and compares the answers.
//
// In: lines of an access log, or URLs. Out: the requests with different answers, and a summary. log.go reads requests,
// client.go sends them, command.go compares and prints.
package compare
