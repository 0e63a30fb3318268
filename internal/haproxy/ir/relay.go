package ir

import (
	"fmt"
	"strings"
)

// The TLVs of the PROXY header with which HAProxy tells gateway-keys what to connect to, and how.
const (
	// RelayEndpoint is the address and port of the endpoint.
	RelayEndpoint = 0xE0
	// RelayServerName is the name to ask for.
	RelayServerName = 0xE1
	// RelayAuthorities is the file with the CA certificates for the endpoint's certificate.
	RelayAuthorities = 0xE2
	// RelayDNSName and RelayURI are what it has to be for, in base64 without padding: one of them suffices.
	RelayDNSName = 0xE3
	RelayURI     = 0xE4
	// RelayCertificate is the file of the certificate to show, and of its key.
	RelayCertificate = 0xE5
	// RelayProtocol is the protocol to ask for.
	RelayProtocol = 0xE6
	// RelayProxyProtocol is the version of the PROXY header to begin with: V1 or V2.
	RelayProxyProtocol = 0xE7
	// RelayAnswer says that a health check wants RelayVerified if the certificate is right, and nothing else.
	RelayAnswer = 0xE8
)

// RelayVerified is the answer to a health check.
const RelayVerified = "verified"

// relayTLV returns the option of a server that adds a TLV. value has nothing that Quote would change.
func relayTLV(kind byte, value string) string {
	return fmt.Sprintf("set-proxy-v2-tlv-fmt(0x%02X) %s", kind, strings.ReplaceAll(value, "%", "%%"))
}

// RelayTLV is a TLV.
type RelayTLV struct {
	Type  byte
	Value string
}

// RelayOptions returns the options of servers that gateway-keys connects to.
func RelayOptions(tlvs []RelayTLV) string {
	options := []string{"send-proxy-v2"}
	for _, tlv := range tlvs {
		options = append(options, relayTLV(tlv.Type, tlv.Value))
	}
	return strings.Join(options, " ")
}

// address returns where HAProxy connects to for a server, and what it tells there.
func (settings *ServerSettings) address(s Server) (address, options string) {
	if settings.Relay == "" {
		return ServerAddress(s), ""
	}
	options = " " + relayTLV(RelayEndpoint, ServerAddress(s))
	if settings.CookieKey != "" {
		// HAProxy makes cookies of addresses, and those are all the same here.
		options += " cookie " + ContentName(settings.CookieKey+" "+ServerAddress(s))
	}
	return "unix@" + settings.Relay, options
}
