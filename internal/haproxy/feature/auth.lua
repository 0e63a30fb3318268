-- Asks a Service whether a request may pass, through the socket that leads there.
--
-- If it may, txn.authorized is set. An answer of 3xx or 4xx goes to the client. In all other cases, a mistake in here
-- among them, txn.authorized is not set, and HAProxy refuses the request. The process asks about so many requests at a
-- time. The socket answers in the end, and with few bytes.

local address = ...
local asked = 1024

-- How many requests of this thread may wait. The number of threads is not known before the first request.
local most
local waiting = 0

-- Headers that frame a message or belong to a connection are not those of the answer to the client.
local framing = {
  ["connection"] = true, ["content-length"] = true, ["keep-alive"] = true, ["proxy-connection"] = true, ["te"] = true,
  ["trailer"] = true, ["transfer-encoding"] = true, ["upgrade"] = true,
}

local function list(values)
  local all = {}
  for i = 0, #values do
    all[#all + 1] = values[i]
  end
  return all
end

local function question(txn)
  local given, headers = txn.http:req_get_headers(), {}
  for name, values in pairs(given) do
    if string.sub(name, 1, 12) == "x-forwarded-" then
      headers[name] = list(values)
    end
  end
  for name in string.gmatch(txn:get_var("txn.auth_send") or "", "[^,]+") do
    if given[name] then
      headers[name] = list(given[name])
    end
  end
  headers["x-forwarded-method"] = {txn.f:method()}
  headers["x-forwarded-uri"] = {txn.f:pathq()}
  headers["x-auth-to"] = {txn:get_var("txn.auth")}
  headers["x-auth-filters"] = {txn:get_var("txn.auth_filters")}
  headers["x-auth-host"] = given["host"] and {given["host"][0]}
  return headers
end

local function decide(txn, answer)
  if answer.status >= 200 and answer.status < 300 then
    for name in string.gmatch(txn:get_var("txn.auth_keep") or "", "[^,]+") do
      txn.http:req_del_header(name)
      for _, value in ipairs(answer.headers[name] and list(answer.headers[name]) or {}) do
        txn.http:req_add_header(name, value)
      end
    end
    txn:set_var("txn.authorized", true)
  elseif answer.status >= 300 and answer.status < 500 then
    local reply = txn:reply{status = answer.status, body = answer.body}
    for name, values in pairs(answer.headers) do
      for _, value in ipairs(framing[name] and {} or list(values)) do
        reply:add_header(name, value)
      end
    end
    return reply
  end
end

local function ask(txn)
  return core.httpclient():get{
    url = "http://auth" .. txn:get_var("txn.auth_path"), headers = question(txn), dst = "unix@" .. address,
  }
end

local function auth(txn)
  if not most then
    local share = asked // core.get_info().Nbthread
    most = share > 8 and share or 8
  end
  if waiting >= most then
    return
  end
  waiting = waiting + 1
  local isAnswered, answer = pcall(ask, txn)
  waiting = waiting - 1
  if isAnswered and answer and answer.status then
    local isDecided, reply = pcall(decide, txn, answer)
    return isDecided and reply
  end
end

core.register_action("auth", {"http-req"}, function(txn)
  local reply = auth(txn)
  if reply then
    txn:done(reply)
  end
end)
