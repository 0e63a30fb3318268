package login

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
)

// Settings are those of a filter. HAProxy passes them on to gateway-login with each question, so that gateway-login
// needs no API server, and an edit counts at once.
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

// The paths below Path.
const (
	CallbackPath = "/callback"
	LogoutPath   = "/logout"
)

// Question returns the path of a question.
func (s Settings) Question() string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // which it does for no texts
	}
	return "/" + base64.RawURLEncoding.EncodeToString(text)
}

// ParseQuestion returns the settings of a question.
func ParseQuestion(path string) (s Settings, err error) {
	text, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(path, "/"))
	if err != nil {
		return Settings{}, err
	}
	if err := json.Unmarshal(text, &s); err != nil {
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
