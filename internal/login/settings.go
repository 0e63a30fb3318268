package login

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"gateway/internal/certificates"
	"gateway/internal/question"
)

// Settings are the settings of a filter. HAProxy passes them on to gateway-login with each question.
type Settings struct {
	Issuer, ClientID, Secret string
	// Authorities are the ConfigMaps with CA certificates.
	Authorities []string
	// Scopes are what to ask for beside openid.
	Scopes []string
	// Path is where the proxy itself answers, and LoggedOutPath where a logout ends.
	Path, LoggedOutPath string
	// Token is the token for the backend: ID, Access or "".
	Token string
}

// IssuerProblem returns why the secret of a client is not for a provider, "" if it is, by the key of the Secret that
// names its issuer. Whoever writes a filter could have any client's secret sent to a provider of their own otherwise.
func IssuerProblem(content []byte, issuer string) string {
	switch strings.TrimSpace(string(content)) {
	case issuer:
		return ""
	case "":
		return fmt.Sprintf("it has no %s: add this key with %s, if %s is for that provider", certificates.IssuerFile, issuer, certificates.ClientSecretFile)
	}
	return fmt.Sprintf("its %s names another provider than %s: %s is not sent there", certificates.IssuerFile, issuer, certificates.ClientSecretFile)
}

// The paths below Path.
const (
	CallbackPath = "/callback"
	LogoutPath   = "/logout"
)

// Question returns the path of a question.
func (s Settings) Question() string { return question.Path(s) }

// ParseQuestion returns the settings of a question.
func ParseQuestion(path string) (s Settings, err error) {
	if err := question.Parse(path, &s); err != nil {
		return Settings{}, err
	}
	if s.Issuer == "" || s.ClientID == "" || s.Secret == "" || s.Path == "" {
		return Settings{}, errors.New("settings are missing")
	}
	return s, nil
}

// AccountBinding is what tokens and logins are bound to: a user of one client of one provider.
func (s Settings) AccountBinding() string { return digest(s.Issuer, s.ClientID, s.Secret) }

// SessionBinding is what a session is bound to. Filters that differ in nothing else share sessions.
func (s Settings) SessionBinding() string { return digest(s.Issuer, s.ClientID, s.Secret, s.Token) }

// digest is of hexadecimal digits, three bytes for every four of Base64, which so needs no padding.
func digest(parts ...string) string {
	text, err := json.Marshal(parts)
	if err != nil {
		panic(err) // which it does for no texts
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:18])
}
