// Package bundle makes an archive for a bug report, without secrets.
package bundle
