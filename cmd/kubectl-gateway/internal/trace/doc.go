// Package trace shows what the proxies do now: requests that are under way, and the next ones.
package trace
