// Package cli is shared by the commands of the plugin: options, errors and exit codes, and reading Gateways from files
// or the cluster.
package cli
