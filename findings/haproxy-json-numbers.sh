#!/usr/bin/env bash
# HAProxy 3.4.7: the converter json_query (and jwt_payload_query, which uses it) changes numbers.
#
# Expected by most: a number comes out as it is written, or at least as its value; with the type "int", as an integer.
# Seen: without a type, a number has six digits: 1234567890 is 1.23457e+09. With "int", an exponent is cut off: 1e3
# is 1. An integer above 2^53-1 is not found at all, so a rule that asks whether the member is there takes it for
# absent.
# `true` is the number 1.
#
# Our rules make strings of numbers, by a regular expression, before json_query reads them.
# shellcheck source=findings/lib.sh
source "$(dirname "$0")/lib.sh"
haproxy_347
start <<'END'
frontend web
    bind unix@DIR/web
    http-request return status 200 content-type text/plain lf-string "%[req.hdr(x),json_query('\$.a')] %[req.hdr(x),json_query('\$.a','int')]" if { req.hdr(x) -m found }
END
ask() { get web http://a/ -H "X: {\"a\":$1}"; }
expect "a number of ten digits" "$(ask 1234567890)" "1.23457e+09 1234567890"
expect "an exponent" "$(ask 1e3)" "1000 1"
expect "2^53-1" "$(ask 9007199254740991)" "9.0072e+15 9007199254740991"
expect "2^53" "$(ask 9007199254740992)" "9.0072e+15 "
expect "true" "$(ask true)" "1 1"
