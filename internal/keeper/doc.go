// Package keeper passes certificates on with their keys once the two fit. In: SECRET/tls.crt and SECRET/tls.key, as kubelet mounts Secrets.
// Out: the same for HAProxy, and without the keys for the agent; of a Secret whose certificate and key do not fit, or whose certificate is
// out of its time when that before is not, or of which HAProxy says that it cannot use it, both get what it held before. HAProxy is told of
// each at once, without a reload.
//
// It passes users on, too: to the part of this program that checks their passwords, and to the agent whether there are
// any.
package keeper
