// Package cli is what the commands of the plugin share: options, errors and exit codes, and where Gateways come from: files or
// the cluster.
package cli
