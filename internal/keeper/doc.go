// Package keeper passes certificates on with their keys once the two fit. In: objects that changed, from the Secrets
// that kubelet mounts or from a key server. Out: SECRET/tls.pem for HAProxy, an inventory without keys for the agent.
// Both keep the earlier pair of a Secret if certificate and key do not fit, if HAProxy refuses them, or if the new
// certificate is not valid now and the earlier one is. HAProxy gets each pair at once, without a reload.
//
// It passes users on, too: to the part of this program that checks passwords. API keys become a map for HAProxy. The
// agent learns whether there are any.
package keeper
