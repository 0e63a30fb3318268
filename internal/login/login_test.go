package login

import (
	"encoding/json"
	"strings"
	"testing"

	"gateway/internal/must"
)

const first, second = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f", "F00102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

// TestKeys: the first key seals, all open, and only for the same purpose and binding.
func TestKeys(t *testing.T) {
	old, _ := ParseKeys([]byte(first))
	keys, problem := ParseKeys([]byte("# of November\n" + second + "\r\n\n " + first + "\n"))
	if len(keys) != 2 || problem != "" {
		t.Fatalf("got %d keys: %s", len(keys), problem)
	}
	sealed := old.Seal(ForLogin, "a", []byte("text"))
	if got, ok := keys.Open(ForLogin, "a", sealed); !ok || string(got) != "text" {
		t.Errorf("got %q, %v", got, ok)
	}
	if again := old.Seal(ForLogin, "a", []byte("text")); again == sealed {
		t.Error("a nonce was used twice")
	}
	parts := strings.Split(sealed, ".")
	for name, wrong := range map[string]bool{
		"purpose": opens(keys, ForHAProxy, "a", sealed), "binding": opens(keys, ForLogin, "b", sealed), "key": opens(keys[:1], ForLogin, "a", sealed),
		"newer key": opens(old, ForLogin, "a", keys.Seal(ForLogin, "a", []byte("text"))), "short tag": opens(keys, ForLogin, "a", strings.Replace(sealed, parts[2], parts[2][:4], 1)),
		"line end": opens(keys, ForLogin, "a", sealed+"\n"), "parts": opens(keys, ForLogin, "a", sealed+".x"), "nothing": opens(keys, ForLogin, "a", ""),
	} {
		if wrong {
			t.Errorf("it opens in spite of the %s", name)
		}
	}
	if old[0].HAProxyKey() == keys[0].HAProxyKey() || len(old[0].HAProxyKey()) != 44 {
		t.Error("HAProxy's keys are wrong")
	}
}

func opens(keys Keys, purpose Purpose, binding, sealed string) bool {
	_, ok := keys.Open(purpose, binding, sealed)
	return ok
}

// TestProblemsOfKeys: a line that cannot be used is left out, and named by its number.
func TestProblemsOfKeys(t *testing.T) {
	for content, want := range map[string]string{
		"":                              "session-keys holds no key",
		"# none\n":                      "session-keys holds no key",
		"secret":                        "no key in session-keys can be used: line 1 has not 64 hexadecimal digits",
		first[:62]:                      "no key in session-keys can be used: line 1 has not 64 hexadecimal digits",
		first + "\n" + first:            "some keys in session-keys cannot be used: line 2 has the key of an earlier line",
		second + "\nx\n" + first + "\n": "some keys in session-keys cannot be used: line 2 has not 64 hexadecimal digits",
	} {
		if _, got := ParseKeys([]byte(content)); got != want || strings.Contains(got, "secret") {
			t.Errorf("%q: got %q, want %q", content, got, want)
		}
	}
}

// TestClaims: claims are as HAProxy reads them.
func TestClaims(t *testing.T) {
	for token, want := range map[string]string{
		`{}`: `[{},"end"]`,
		`{"iss":"a","aud":["a","b"],"azp":"a","exp":1,"iat":1,"nbf":1,"jti":"a","nonce":"a","at_hash":"a","c_hash":"a","sub":"x"}`: `[{"aud":["a","b"],"azp":"a","iss":"a","sub":"x"},"end"]`,
		`{"b":1e3,"a":false,"c":null,"d":[1,{"e":2}]}`:                    "[{\"a\":\"\x01false\",\"b\":\"\x011e3\",\"c\":null,\"d\":[1,{\"e\":\"\x012\"}]},\"end\"]",
		`{"a":"\n\"\\\u0000\u2028é"}`:                                     "[{\"a\":\"\\u000a\\u0022\\u005c\\u0000\u2028é\"},\"end\"]",
		`{"a":"\u0001"}`:                                                  "",
		`{"a":` + strings.Repeat("[", 17) + strings.Repeat("]", 17) + `}`: "",
	} {
		var all map[string]json.RawMessage
		must.Do(t, json.Unmarshal([]byte(token), &all))
		if got, err := Claims(all); got != want && want != "" || (err == nil) != (want != "") {
			t.Errorf("%s: got %q, %v", token, got, err)
		}
	}
}

// TestIssuer: a client secret is for the provider that its Secret names, and for no other. Problems show nothing of
// the Secret.
func TestIssuer(t *testing.T) {
	const issuer = "https://id.example.com"
	for content, want := range map[string]string{
		issuer: "", issuer + "\n": "", "": "it has no issuer: add this key with https://id.example.com, if client-secret is for that provider", " \n": "it has no issuer",
		issuer + "/":             "its issuer names another provider than https://id.example.com: client-secret is not sent there",
		"https://ID.example.com": "its issuer names another", issuer + "\nhttps://other.example.com": "its issuer names another", "id.example.com": "its issuer names another",
	} {
		if got := IssuerProblem([]byte(content), issuer); !strings.HasPrefix(got, want) || want == "" && got != "" || strings.Contains(got, "other.example.com") {
			t.Errorf("%q: got %q", content, got)
		}
	}
}

// TestSettings: a question has all settings, and different settings have sessions of their own.
func TestSettings(t *testing.T) {
	settings := Settings{Issuer: "https://a/?&=+%", ClientID: "b", Secret: "c", Path: "/d", Scopes: []string{"e"}, Token: "ID"}
	got, err := ParseQuestion(settings.Question())
	if err != nil || got.SessionBinding() != settings.SessionBinding() || got.Scopes[0] != "e" || got.Path != "/d" {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, question := range []string{"/", "/e30", "/%"} {
		if _, err := ParseQuestion(question); err == nil {
			t.Errorf("%s has settings", question)
		}
	}
	a, b := Settings{Issuer: "a", ClientID: "b"}, Settings{Issuer: "ab"}
	if a.SessionBinding() == b.SessionBinding() || a.SessionBinding() == (Settings{Issuer: "a", ClientID: "b", Token: "ID"}).SessionBinding() {
		t.Error("two filters share sessions")
	}
}
