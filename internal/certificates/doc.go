// Package certificates reads certificates and keys as Secrets and ConfigMaps contain them. In: the contents of files.
// Out: the certificates, or the problem, in words for a status.
package certificates
