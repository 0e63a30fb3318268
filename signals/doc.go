// Package signals ends a program in two steps: the first request to stop cancels a context, so that the program can
// finish what it is doing; the second exits at once.
package signals
