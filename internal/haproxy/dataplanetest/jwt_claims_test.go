package dataplanetest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// signed returns a token whose payload has members of JSON, in place of a valid token's.
func signed(t testing.TB, members ...string) string {
	t.Helper()
	all := []string{`"iss":"https://id.example.com/"`, `"aud":"shop"`, `"sub":"alice"`, `"exp":4000000000`}
	for _, member := range members {
		name, _, _ := strings.Cut(member, ":")
		all = append(slices.DeleteFunc(all, func(other string) bool { return strings.HasPrefix(other, name+":") }), member)
	}
	return signedText(t, "{"+strings.Join(all, ",")+"}")
}

func signedText(t testing.TB, payload string) string {
	t.Helper()
	return issuerKeys()["ES256"].sign(t, "ES256", `{"alg":"ES256","kid":"ES256"}`, payload)
}

// TestJWTClaimTexts: a header has what the issuer wrote.
func TestJWTClaimTexts(t *testing.T) {
	t.Parallel()
	c := newClient(t, startJWT(t, "ES256").ports[80])
	for written, want := range map[string]string{
		`5`: "5", `-0`: "-0", `1.50`: "1.50", `1e3`: "1e3", `12E-1`: "12E-1", `9007199254740991`: "9007199254740991",
		`9007199254740993`: "9007199254740993", `-9223372036854775809`: "-9223372036854775809", `123456789012345678901234567890`: "123456789012345678901234567890",
		`true`: "true", `false`: "false", `null`: "-", `{"a":"b"}`: "-", `""`: "",
		`"5"`: "5", `"true"`: "true", `"a: 5, b"`: "a: 5, b", `"null"`: "null", `"[1]"`: "[1]",
		`"Jos\u00e9"`: "José", `"\u4f60\u597d"`: "你好", `"\ud83d\ude00\uD83D\uDE00"`: "😀😀", `"a\/b"`: "a/b", `"\\u0041\\/"`: `\u0041\/`, `"\u0062\u005c\u0022\"\\"`: `b\""\`,
		`[]`: "[]", `["a","b"]`: `["a","b"]`, `[1, 2.0,true,null,"x:5"]`: `[1, 2.0,true,null,"x:5"]`, `[{"a":5, "b" : true},[{"c":-1e5}]]`: `[{"a":5, "b" : true},[{"c":-1e5}]]`,
	} {
		got := c.send(with("/", "Bearer "+signed(t, `"other":{"id":7,"x":[1,{"id":8}]}`, `"id":`+written, `"last":"\"id\":9"`)))
		line := "X-Id: " + want + "\r\n"
		if got.Status != 200 || strings.Contains(got.Body, line) == (want == "-") || strings.Contains(got.Body, "X-Id: ") == (want == "-") {
			t.Errorf("with %s, got %d, want %q:\n%s", written, got.Status, line, got.Body)
		}
	}
	for name, test := range map[string]struct{ payload, want string }{
		"a member":              {`{"realm":{"groups":5}}`, "X-Groups: 5\r\n"},
		"a member of a number":  {`{"realm":5,"groups":6}`, ""},
		"a name with dots":      {`{"https://example.com/groups":["a"],"https://example":{"com/groups":"b"}}`, `X-Url: ["a"]` + "\r\n"},
		"a member of such":      {`{"https://example.com/app":{"user.id":12345678901234567890}}`, "X-Url-User: 12345678901234567890\r\n"},
		"a name with escapes":   {`{"https:\/\/example.com\/groups":"a","\u0069d":3}`, "X-Url: a\r\n"},
		"white space":           {"\n{ \"realm\" :\t{ \"groups\" : 5 }\r\n} ", "X-Groups: 5\r\n"},
		"the name as a string":  {`{"a":"id","b":["id",1]}`, ""},
		"a colon in an account": {`{"cognito:groups":["a"]}`, `X-Cognito: ["a"]` + "\r\n"},
	} {
		members := `"iss":"https://id.example.com/","aud":"shop","exp":4000000000,`
		got := c.send(with("/", "Bearer "+signedText(t, strings.Replace(test.payload, "{", "{"+members, 1))))
		if got.Status != 200 || !strings.Contains(got.Body, test.want) || test.want == "" && (strings.Contains(got.Body, "X-Id") || strings.Contains(got.Body, "X-Groups")) {
			t.Errorf("%s: got %d, want %q:\n%s", name, got.Status, test.want, got.Body)
		}
	}
}

// TestJWTTimes: times are compared as numbers, and a token with others is refused.
func TestJWTTimes(t *testing.T) {
	t.Parallel()
	c := newClient(t, startJWT(t, "ES256").ports[80])
	now := time.Now().Unix()
	exponent := func(seconds int64) string { return fmt.Sprintf("%d.%09de9", seconds/1e9, seconds%1e9) }
	for written, want := range map[string][2]int{ // for exp, for nbf
		"4e9": {200, 401}, "4.0E+9": {200, 401}, "1e9": {401, 200}, "0.1e10": {401, 200}, "40000000000e-1": {200, 401},
		exponent(now + 600): {200, 401}, exponent(now - 600): {401, 200}, fmt.Sprintf("%d.25", now+600): {200, 401}, fmt.Sprintf("%d.75", now-600): {401, 200},
		"-1": {401, 200}, "-1.5": {401, 200}, "0": {401, 200}, "9007199254740992": {200, 401},
		"9007199254740993": {401, 401}, "1e16": {401, 401}, "99999999999999999999": {401, 401}, "-1e300": {401, 401}, "1e999": {401, 401},
		`"4000000000"`: {401, 401}, `"1"`: {401, 401}, `"soon"`: {401, 401}, "true": {401, 401}, "null": {401, 401}, "{}": {401, 401}, "[]": {401, 401},
		"[1]": {401, 401}, "[4000000000]": {401, 401}, `{"exp":1}`: {401, 401}, `"\u00014000000000"`: {401, 401},
	} {
		for i, name := range []string{"exp", "nbf"} {
			if got := c.send(with("/exact", "Bearer "+signed(t, `"`+name+`":`+written))); got.Status != want[i] {
				t.Errorf("%s of %s: got %d, want %d", name, written, got.Status, want[i])
			}
		}
	}
}

// TestJWTTypes: a claim of a type that it must not have lets no request through, and neither does what is no JSON.
func TestJWTTypes(t *testing.T) {
	t.Parallel()
	c := newClient(t, startJWT(t, "ES256").ports[80])
	valid := `{"iss":"https://id.example.com/","aud":"shop","exp":4000000000`
	for _, test := range []struct {
		path, token string
		want        int
	}{
		{"/", signed(t, `"aud":["a", "shop"]`), 200},
		{"/", signed(t, `"aud":[5,"shop"]`), 401},
		{"/", signed(t, `"aud":["shop",{"a":"b"}]`), 401},
		{"/", signed(t, `"aud":["shop",null]`), 401},
		{"/", signed(t, `"aud":[["shop"]]`), 401},
		{"/", signed(t, `"aud":{"0":"shop"}`), 401},
		{"/", signed(t, `"iss":true`), 401},
		{"/scopes", signed(t, `"scope":["read",5,"urn:x/write"]`), 403},
		{"/scopes", signed(t, `"scope":true`, `"scp":[["read","urn:x/write"]]`), 403},
		{"/scopes", signed(t, `"scope":["read", "urn:x\/write"]`), 200},
		{"/", signed(t, `"name":"\ud800"`), 401},
		{"/", signed(t, `"name":"\udc00\ud800"`), 401},
		{"/", signed(t, `"name":"\u0001"`), 401},
		{"/", signed(t, `"name":"\x"`), 401},
		{"/", signed(t, `"name":"\u12"`), 401},
		{"/", signed(t, "\"name\":\"a\nb\""), 401},
		{"/", signed(t, "\"name\":\"\x015\""), 401},
		{"/", signed(t, `"id":01`), 401},
		{"/", signed(t, `"id":1.`), 401},
		{"/", signed(t, `"id":.5`), 401},
		{"/", signed(t, `"id":+5`), 401},
		{"/", signed(t, `"id":0x10`), 401},
		{"/", signed(t, `"id":truth`), 401},
		{"/", signed(t, `"id":NaN`), 401},
		{"/", signed(t, `"id":[1,]`), 401},
		{"/", signed(t, `"id":{"a":1,}`), 401},
		{"/", signed(t, `id:5`), 401},
		{"/", signedText(t, valid), 401},
		{"/", signedText(t, valid+",}"), 401},
		{"/", signedText(t, valid+"}}"), 401},
		{"/", signedText(t, valid+"}{}"), 401},
		{"/", signedText(t, "["+valid+"}]"), 401},
		{"/", signedText(t, valid+"} \n"), 200},
	} {
		if got := c.send(with(test.path, "Bearer "+test.token)); got.Status != test.want {
			t.Errorf("%s with %s: got %d, want %d", test.path, test.token, got.Status, test.want)
		}
	}
	for _, critical := range []string{`["b64"]`, `[]`, `{}`, `null`, `5`, `"exp"`} {
		for _, name := range []string{`"crit"`, `"crit" `, `"cr\u0069t"`} {
			token := issuerKeys()["ES256"].sign(t, "ES256", `{"alg":"ES256","kid":"ES256",`+name+`:`+critical+`}`, claims(nil))
			if got := c.send(with("/", "Bearer "+token)); got.Status != 401 {
				t.Errorf("%s:%s in the header of a token: got %d", name, critical, got.Status)
			}
		}
	}
}

// TestJWTSizes: a token is read as long as it fits a request, and as deep as HAProxy reads JSON.
func TestJWTSizes(t *testing.T) {
	t.Parallel()
	c := newClient(t, startJWT(t, "ES256").ports[80])
	nested := func(depth int) string {
		return `"deep":` + strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth)
	}
	for name, test := range map[string]struct {
		members string
		want    int
	}{
		"many numbers":      {`"many":[` + strings.Repeat("1,", 5700) + `1]`, 200},
		"many objects":      {`"many":[` + strings.Repeat(`{"a":1},`, 1430) + `1]`, 200},
		"many claims":       {strings.Repeat(`"a":1,`, 1900) + `"b":2`, 200},
		"many texts":        {`"many":[` + strings.Repeat(`"a",`, 2850) + `"b"]`, 200},
		"a long text":       {`"long":"` + strings.Repeat("a", 11500) + `"`, 200},
		"many escapes":      {`"long":"` + strings.Repeat(`\/`, 5700) + `"`, 200},
		"objects in others": {nested(18), 200},
		"too many of them":  {nested(19), 401},
		"far too many":      {nested(1000), 401},
	} {
		got := c.send(with("/", "Bearer "+signed(t, test.members, `"id":9007199254740993`)))
		if got.Status != test.want || test.want == 200 && !strings.Contains(got.Body, "X-Id: 9007199254740993\r\n") {
			t.Errorf("%s: got %d, want %d", name, got.Status, test.want)
		}
	}
}
