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

local function list(values)
  local all = {}
  for i = 0, #values do
    all[#all + 1] = values[i]
  end
  return all
end

local function asksKeys(txn)
  return txn:get_var("txn.auth") == "users"
end

-- HAProxy has values of its own for two headers. "none" takes them away.
local function question(txn)
  local given, headers = txn.http:req_get_headers(), {["accept"] = {"none"}, ["user-agent"] = {"none"}}
  local repeats, names = txn:get_var("txn.auth_repeat"), txn:get_var("txn.auth_send") or ""
  if not repeats then
    names = names .. ",x-forwarded-for,x-forwarded-host,x-forwarded-port,x-forwarded-proto"
  end
  for name in string.gmatch(names, "[^,]+") do
    headers[name] = given[name] and list(given[name]) or headers[name]
  end
  headers["gateway-auth-method"], headers["x-forwarded-method"] = nil, nil
  headers[repeats and "gateway-auth-method" or "x-forwarded-method"] = {txn.f:method()}
  headers["x-forwarded-uri"] = not repeats and {txn.f:pathq()} or nil
  headers["gateway-auth-backend"] = {txn:get_var("txn.auth")}
  headers["gateway-auth-filters"] = {txn:get_var("txn.auth_filters")}
  headers["gateway-auth-host"] = given["host"] and {given["host"][0]}
  return headers
end

-- The headers of the answer that the backend gets, with their values.
local function kept(txn, answer)
  local all, names = {}, txn:get_var("txn.auth_keep") or ""
  if names == "" and txn:get_var("txn.auth_repeat") then
    for name, values in pairs(answer.headers) do
      all[name] = not framing[name] and list(values) or nil
    end
  end
  for name in string.gmatch(names, "[^,]+") do
    local values = answer.headers[asksKeys(txn) and "gateway-client" or name]
    all[name] = values and list(values) or {}
  end
  return all
end

local function passes(txn, status)
  return status == 200 or status > 200 and status < 300 and not txn:get_var("txn.auth_repeat")
end

local function decide(txn, answer)
  if passes(txn, answer.status) then
    for name, values in pairs(kept(txn, answer)) do
      txn.http:req_del_header(name)
      for _, value in ipairs(values) do
        txn.http:req_add_header(name, value)
      end
    end
    if answer.headers["set-cookie"] then
      txn:set_var("txn.auth_cookies", table.concat(list(answer.headers["set-cookie"]), "\n"))
    end
    if asksKeys(txn) then
      txn:set_var("txn.client_name", answer.headers["gateway-client"][0])
    end
    txn:set_var("txn.authorized", true)
  elseif asksKeys(txn) then
    if answer.status == 401 then
      txn:set_var("txn.challenge", answer.headers["www-authenticate"][0])
    end
  elseif answer.status >= 300 and answer.status < 500 and txn:get_var("txn.shadowing") then
    txn:set_var("txn.refused", answer.status)
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
  local client, path = core.httpclient(), txn:get_var("txn.auth_path")
  local body = txn:get_var("txn.auth_body") and (txn.f:req_body() or "")
  local send = body and client.post or client.get
  if txn:get_var("txn.auth_repeat") then
    path = path .. (txn.f:pathq() or "/")
    -- An answer to HEAD has no body, whatever its headers say.
    send = txn.f:method() == "HEAD" and client.head or send
  end
  return send(client, {url = "http://auth" .. path, headers = question(txn), body = body, dst = "unix@" .. address})
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

-- Gives the client the cookies of an answer that let its request through.
core.register_action("auth_cookies", {"http-after-res"}, function(txn)
  for cookie in string.gmatch(txn:get_var("txn.auth_cookies"), "[^\n]+") do
    txn.http:res_add_header("set-cookie", cookie)
  end
end)
