-- Asks a Service whether a request may pass, through the socket that leads there.
--
-- If it may, txn.authorized is set. An answer of 3xx or 4xx goes to the client. In all other cases, a mistake in here
-- among them, txn.authorized is not set, and HAProxy refuses the request. The socket bounds how many questions there
-- are at a time, how long an answer takes, and how long it is.

local address = ...

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
  local forwarded = "x-forwarded-for,x-forwarded-host,x-forwarded-port,x-forwarded-proto,"
  for name in string.gmatch(forwarded .. (txn:get_var("txn.auth_send") or ""), "[^,]+") do
    headers[name] = given[name] and list(given[name])
  end
  headers["x-forwarded-method"] = {txn.f:method()}
  headers["x-forwarded-uri"] = {txn.f:pathq()}
  headers["gateway-auth-backend"] = {txn:get_var("txn.auth")}
  headers["gateway-auth-filters"] = {txn:get_var("txn.auth_filters")}
  headers["gateway-auth-host"] = given["host"] and {given["host"][0]}
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
  local answer = ask(txn)
  return answer and answer.status and decide(txn, answer)
end

core.register_action("auth", {"http-req"}, function(txn)
  local isDone, reply = pcall(auth, txn)
  if isDone and reply then
    txn:done(reply)
  end
end)
