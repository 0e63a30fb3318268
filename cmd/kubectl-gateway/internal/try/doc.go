// Package try runs Gateways of files on this machine: the agent's own loop and a real HAProxy, without Kubernetes.
package try
