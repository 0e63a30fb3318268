// Package proxyconfig shows what the proxy pods of a Gateway really run, by asking their agents.
package proxyconfig
