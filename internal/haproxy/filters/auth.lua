-- Asks a Service whether a request may pass, through the socket that leads there.
--
-- If it may, txn.authorized is set, and txn.client_name to the user if gateway-keys was asked. An answer of 3xx or 4xx
-- goes to the client. If gateway-keys was asked, HAProxy answers instead, with the challenge in txn.challenge. If requests are let through all the same (txn.shadowing), the
-- status of the answer is in txn.refused instead. In all other cases, a mistake in here among them, txn.authorized
-- is not set, and HAProxy refuses the request. The socket bounds how many questions there are at a time, how long an
-- answer takes, and how long it is.

local address = ...

-- Headers that frame a message, belong to a connection or name a host are not passed on.
local framing = {
  ["authority"] = true, ["connection"] = true, ["content-length"] = true, ["expect"] = true, ["host"] = true,
  ["http2-settings"] = true, ["keep-alive"] = true, ["proxy-connection"] = true, ["te"] = true, ["trailer"] = true,
  ["transfer-encoding"] = true, ["upgrade"] = true,
}

-- The names in a list of them, as a set. What is in configurations are few lists.
local sets = {}

local function set(names)
  if not sets[names] then
    sets[names] = {}
    for name in string.gmatch(names, "[^,]+") do
      sets[names][name] = not framing[name] and name ~= "x-forwarded-method" and name ~= "x-forwarded-uri"
    end
  end
  return sets[names]
end

local forwarded = ",x-forwarded-for,x-forwarded-host,x-forwarded-port,x-forwarded-proto"

-- What a question shares a number of places with: those to one Service, of one client to gateway-keys, or for one
-- provider to gateway-login. Before the slash is the kind of question.
local parts = {users = "txn.asker", login = "txn.login_issuer"}

local function room(txn)
  local asked = txn:get_var("txn.auth")
  return parts[asked] and asked .. "/" .. (txn:get_var(parts[asked]) or "") or "services/" .. asked
end

local function asks(txn, backend)
  return txn:get_var("txn.auth") == backend
end

-- The method, the text of the question, and its headers that are from the request, as lines.
local function question(txn)
  local repeats, body = txn:get_var("txn.auth_repeat"), txn:get_var("txn.auth_body") and (txn.f:req_body() or "")
  local path, asked, method = txn:get_var("txn.auth_path"), txn.f:pathq(), txn.f:method()
  local names = set((txn:get_var("txn.auth_send") or "") .. (repeats and "" or forwarded))
  local sent = {"host: " .. (txn.f:req_fhdr("host", 1) or "")}
  for line, name in string.gmatch(txn.f:req_hdrs(), "(([^:\r\n]+):[^\r\n]*)") do
    if names[name] then
      sent[#sent + 1] = line
    end
  end
  if asks(txn, "login") then
    sent[#sent + 1] = "cookie: " .. (txn:get_var("txn.login_cookies") or "")
  end
  if repeats then
    path = path .. (asked or "/")
  else
    sent[#sent + 1] = "x-forwarded-method: " .. method
    sent[#sent + 1] = asked and "x-forwarded-uri: " .. asked
    method = body and "POST" or "GET"
  end
  local lines = {
    method .. " " .. path .. " HTTP/1.1", table.concat(sent, "\r\n"), "gateway-auth-backend: " .. txn:get_var("txn.auth"),
    "gateway-auth-filters: " .. txn:get_var("txn.auth_filters"), "gateway-room: " .. room(txn),
    "gateway-team: " .. (txn:get_var("txn.team") or ""),
  }
  lines[#lines + 1] = body and "content-length: " .. #body
  lines[#lines + 1] = "\r\n" .. (body or "")
  return method, table.concat(lines, "\r\n"), sent
end

-- The headers of the answer that the backend gets, with their values. Some backends take one whose name has other
-- characters for another one: it has to be named.
local function kept(txn, answer)
  local all, names = {}, txn:get_var("txn.auth_keep") or ""
  if names == "" and txn:get_var("txn.auth_repeat") then
    for name, values in pairs(answer.headers) do
      all[name] = not framing[name] and not string.find(name, "[^a-z0-9-]") and values or nil
    end
  end
  for name in string.gmatch(names, "[^,]+") do
    all[name] = answer.headers[asks(txn, "users") and "gateway-client" or name] or {}
  end
  return all
end

local function passes(txn, status)
  return status == 200 or status > 200 and status < 300 and not txn:get_var("txn.auth_repeat")
end

-- A text as HAProxy has it in a list of headers: its length, as SPOE encodes it, and its bytes. Two empty ones end it.
local function entry(text)
  local n = #text
  if n < 240 then
    return string.char(n) .. text
  end
  local length = string.char(n & 15 | 240)
  n = (n - 240) >> 4
  while n >= 128 do
    length, n = length .. string.char(n & 127 | 128), (n - 128) >> 7
  end
  return length .. string.char(n) .. text
end

-- Gives the client the cookies of an answer, whoever answers the request in the end. Only gateway-login sets its own.
local function passCookies(txn, answer)
  local all = ""
  for _, cookie in ipairs(answer.headers["set-cookie"] or {}) do
    if asks(txn, "login") or not string.find(cookie, "^[= \t]*__Host%-gateway%-") then
      all = all .. entry("set-cookie") .. entry(cookie)
    end
  end
  if all ~= "" then
    txn:set_var("txn.auth_cookies", all .. (txn:get_var("txn.auth_cookies") or "\0\0"))
  end
  answer.headers["set-cookie"] = nil
end

local function decide(txn, answer)
  if passes(txn, answer.status) then
    for name, values in pairs(kept(txn, answer)) do
      txn.http:req_del_header(name)
      for _, value in ipairs(values) do
        txn.http:req_add_header(name, value)
      end
    end
    passCookies(txn, answer)
    if asks(txn, "users") then
      txn:set_var("txn.client_name", answer.headers["gateway-client"][1])
    end
    txn:set_var("txn.authorized", true)
  elseif asks(txn, "users") then
    if answer.status == 401 then
      txn:set_var("txn.challenge", answer.headers["www-authenticate"][1])
    end
  elseif answer.status >= 300 and answer.status < 500 and txn:get_var("txn.shadowing") then
    txn:set_var("txn.refused", answer.status)
  elseif answer.status >= 300 and answer.status < 500 then
    local reply = txn:reply{status = answer.status, body = answer.body}
    passCookies(txn, answer)
    for name, values in pairs(answer.headers) do
      for _, value in ipairs(framing[name] and {} or values) do
        reply:add_header(name, value)
      end
    end
    return reply
  end
end

-- How a rule keeps answers, as txn.auth_cache has it: for how many seconds at most, by which headers and cookies, and
-- how many seconds those that do not say, by status. By all of the question if there are neither headers nor cookies.
local caches = {}

local function cacheOf(txn)
  local text = txn:get_var("txn.auth_cache")
  if text and not caches[text] then
    local most, headers, cookies, durations = string.match(text, "^(%d+);([^;]*);([^;]*);(.*)$")
    local cache = {most = tonumber(most), isNamed = headers .. cookies ~= "", headers = {authorization = true}, cookies = {}, durations = {}}
    for name in string.gmatch(headers, "[^,]+") do
      cache.headers[name] = true
    end
    for name in string.gmatch(cookies, "[^,]+") do
      cache.cookies[name] = true
    end
    for status, seconds in string.gmatch(durations, "(%d+)=(%d+)") do
      cache.durations[tonumber(status)] = cache.durations[tonumber(status)] or tonumber(seconds)
    end
    caches[text] = cache
  end
  return not parts[txn:get_var("txn.auth")] and caches[text] or nil
end

-- What the named headers and cookies of a question are, beside its host. nil if none of them tells clients apart.
local function named(cache, sent)
  local all, isKnown = {sent[1]}, false
  for i = 2, #sent do
    local name, value = string.match(sent[i], "^([^:]+): ?(.*)$")
    if cache.headers[name] then
      all[#all + 1] = sent[i]
      isKnown = isKnown or value ~= "" and not string.find(name, "^x%-forwarded%-")
    end
    for cookie in string.gmatch(name == "cookie" and value or "", "[^;]+") do
      local key, content = string.match(cookie, "^%s*([^=%s]+)%s*=(.*)$")
      if cache.cookies[key] then
        all[#all + 1] = key .. "=" .. content
        isKnown = isKnown or string.find(content, "%S") ~= nil
      end
    end
  end
  return isKnown and table.concat(all, "\r\n") or nil
end

-- The key of an answer: a hash of the rule with its filters, and of what is sent, or the part of it that is named.
local function keyOf(txn, cache, text, sent)
  local rule = string.match(txn:get_var("txn.hit"), "^[^|]*|[^|]*|[^|]*")
  if cache.isNamed then
    text = named(cache, sent)
    text = text and text .. "\r\n\r\n" .. (txn:get_var("txn.auth_body") and txn.f:req_body() or "")
  end
  return text and txn.c:sha2(rule .. "\r\n" .. text, 256)
end

local function less(a, b)
  return a < b and a or b
end

-- For how many seconds Cache-Control says that an answer may be kept, nil if it does not say.
local function said(headers)
  local least
  for directive in string.gmatch(string.lower(table.concat(headers["cache-control"] or {}, ",")), "[^,]+") do
    local name, value = string.match(directive, "^%s*([^=%s]*)(.*)$")
    if name == "no-store" or name == "no-cache" or name == "private" then
      return 0
    elseif name == "max-age" or name == "s-maxage" then
      local seconds = tonumber(string.match(value, "^%s*=%s*\"?(%d+)\"?%s*$") or 0)
      least = less(least or seconds, seconds)
    end
  end
  return least
end

-- Whether an answer may be one for clients with the same key. What it varies by has to be in there.
local function isShared(cache, headers)
  if headers["set-cookie"] or headers["x-accel-expires"] then
    return false
  end
  for name in string.gmatch(string.lower(table.concat(headers["vary"] or {}, ",")), "[^,%s]+") do
    if name == "*" or cache.isNamed and not cache.headers[name] and name ~= "host" then
      return false
    end
  end
  return true
end

-- The JSON Web Tokens in a text, without their signatures. Each part is looked at once: a pattern of a whole token would
-- look for its end from each place where one may begin.
local function tokensIn(text)
  local all, head, after = {}, nil, 0
  for start, part, stop in string.gmatch(text, "()([%w_-]+)()") do
    local isEnded = string.sub(text, stop, stop) == "."
    if head and start == after and isEnded then
      all[#all + 1] = head .. "." .. part .. "."
    end
    local from = isEnded and string.find(part, "eyJ.", 1)
    head, after = from and string.sub(part, from), stop + 1
  end
  return all
end

-- For how many seconds an answer is kept, by what it says and by the tokens that were sent.
local function lifetime(txn, cache, text, answer)
  local headers = answer.headers
  local seconds = said(headers)
  if not seconds and not headers["cache-control"] and not headers["expires"] and not headers["pragma"] then
    seconds = cache.durations[answer.status]
  end
  local age = tonumber(headers["age"] and headers["age"][1] or 0)
  if not seconds or not age or age < 0 or not isShared(cache, headers) then
    return 0
  end
  seconds = less(seconds - age, cache.most)
  local tokens = tokensIn(text)
  if #tokens > 16 then
    return 0
  end
  for _, token in ipairs(tokens) do
    local ends = txn.c:jwt_payload_query(token, "$.exp")
    if (ends or "") ~= "" then -- as a text, it is rounded to six digits
      seconds = less(seconds, (tonumber(txn.c:jwt_payload_query(token, "$.exp", "int")) or 0) - core.now().sec)
    end
  end
  return seconds
end

-- Answers by key: the young ones, and those that were young before there were too many.
local young, old, size, most = {}, {}, 0, nil

local function recall(key)
  local entry = young[key] or old[key]
  local age = entry and core.now().sec - entry.since
  return age and age >= 0 and age < entry.seconds and entry.answer or nil
end

-- All threads keep up to 16 MiB, without what HAProxy itself needs.
local function remember(key, since, seconds, answer)
  local bytes = 500 + #answer.body
  for name, values in pairs(answer.headers) do
    for _, value in ipairs(values) do
      bytes = bytes + 200 + #name + #value
    end
  end
  most = most or (8 << 20) // tonumber(core.get_info()["Nbthread"])
  if bytes > 8192 then
    return
  elseif size + bytes > most then
    young, old, size = {}, young, 0
  end
  young[key], size = {since = since, seconds = seconds, answer = answer}, size + bytes
end

-- Keeps an answer if it decides about the request, and says for how long. Of one that lets it through, the headers for
-- the backend are kept.
local function keep(txn, cache, key, since, text, answer)
  local isGood = passes(txn, answer.status)
  local seconds = (isGood or answer.status >= 300 and answer.status < 500) and lifetime(txn, cache, text, answer) or 0
  if seconds > 0 then
    remember(key, since, seconds, isGood and {status = answer.status, headers = kept(txn, answer), body = ""} or answer)
  end
end

local function ask(txn)
  local method, text, sent = question(txn)
  local cache = cacheOf(txn)
  local key = cache and keyOf(txn, cache, text, sent)
  local answer, since = key and recall(key), core.now().sec
  if not answer then
    local seconds = tonumber(string.match(txn:get_var("txn.auth_filters"), "%d+")) // 1000 + 5
    answer = exchange(address, seconds, method, text)
    local _ = answer and key and keep(txn, cache, key, since, text, answer)
  end
  return answer
end

local function auth(txn)
  local answer = ask(txn)
  return answer and decide(txn, answer)
end

core.register_action("auth", {"http-req"}, function(txn)
  local isDone, reply = pcall(auth, txn)
  if isDone and reply then
    txn:done(reply)
  end
end)
