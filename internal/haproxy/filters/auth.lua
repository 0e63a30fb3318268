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

-- The method, and the text of the question.
local function question(txn)
  local repeats, body = txn:get_var("txn.auth_repeat"), txn:get_var("txn.auth_body") and (txn.f:req_body() or "")
  local path, asked, method = txn:get_var("txn.auth_path"), txn.f:pathq(), txn.f:method()
  local names = set((txn:get_var("txn.auth_send") or "") .. (repeats and "" or forwarded))
  local lines = {
    "", "host: " .. (txn.f:req_fhdr("host", 1) or ""), "gateway-auth-backend: " .. txn:get_var("txn.auth"),
    "gateway-auth-filters: " .. txn:get_var("txn.auth_filters"), "gateway-room: " .. room(txn),
    "gateway-team: " .. (txn:get_var("txn.team") or ""),
  }
  for line, name in string.gmatch(txn.f:req_hdrs(), "(([^:\r\n]+):[^\r\n]*)") do
    if names[name] then
      lines[#lines + 1] = line
    end
  end
  if asks(txn, "login") then
    lines[#lines + 1] = "cookie: " .. (txn:get_var("txn.login_cookies") or "")
  end
  if repeats then
    path = path .. (asked or "/")
  else
    lines[#lines + 1] = "x-forwarded-method: " .. method
    lines[#lines + 1] = asked and "x-forwarded-uri: " .. asked
    method = body and "POST" or "GET"
  end
  lines[1] = method .. " " .. path .. " HTTP/1.1"
  lines[#lines + 1] = body and "content-length: " .. #body
  lines[#lines + 1] = "\r\n" .. (body or "")
  return method, table.concat(lines, "\r\n")
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

local function ask(txn)
  local most = tonumber(string.match(txn:get_var("txn.auth_filters"), "%d+")) // 1000 + 5
  return exchange(address, most, question(txn))
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
