-- Asks a Service for an answer in place of a backend's error, through the socket that leads there.
--
-- One action asks, and another one answers: HAProxy 3.4.7 crashed otherwise. If the Service has no answer,
-- txn.overriding is not set, and the client gets the error. So it does after a mistake in here. The socket bounds how
-- many questions there are at a time, how long an answer takes, and how long it is.

local address = ...

-- Headers that frame a message, or belong to a connection, are not passed on.
local framing = {
  ["connection"] = true, ["content-length"] = true, ["keep-alive"] = true, ["proxy-connection"] = true, ["te"] = true,
  ["trailer"] = true, ["transfer-encoding"] = true, ["upgrade"] = true,
}

-- Headers of the error that its status needs, or that set cookies. The client gets them with what replaces the error:
-- cookies beside those of the Service, others unless the Service has its own.
local needed = {"allow", "retry-after", "set-cookie", "www-authenticate"}

-- Calls add with the name and value of each of these headers that the client gets with others.
local function keep(txn, others, add)
  local headers = txn.http:res_get_headers()
  for _, name in ipairs(needed) do
    local values = headers[name]
    for i = 0, values and (name == "set-cookie" or not others[name]) and #values or -1 do
      add(name, values[i])
    end
  end
end

-- Reports whether an answer is one of the Service, and not cut off.
local function isWhole(answer)
  local length = answer.headers["content-length"]
  return answer.headers["gateway-override-answer"] and (not length or tonumber(length[0]) == #answer.body)
end

local function ask(txn)
  local headers = {["accept"] = {"none"}, ["user-agent"] = {"none"}}
  for name, variable in pairs({
    ["gateway-override-backend"] = "txn.override_to", ["gateway-override-host"] = "txn.host", ["x-code"] = "txn.override_code",
    ["x-format"] = "txn.override_format", ["x-original-uri"] = "txn.override_uri", ["x-request-id"] = "txn.id",
    ["gateway-override-team"] = "txn.team",
  }) do
    local value = txn:get_var(variable)
    headers[name] = value and {tostring(value)}
  end
  local answer = core.httpclient():get{url = "http://override/", headers = headers, dst = "unix@" .. address}
  if answer and answer.headers and isWhole(answer) then
    txn:set_priv(answer)
    txn:set_var("txn.overriding", true)
  end
end

local function give(txn)
  local answer = txn:get_priv()
  local reply = txn:reply{status = tonumber(txn:get_var("txn.override_status")), body = answer.body}
  for name, values in pairs(answer.headers) do
    if not framing[name] and name ~= "gateway-override-answer" then
      for i = 0, #values do
        reply:add_header(name, values[i])
      end
    end
  end
  keep(txn, answer.headers, function(name, value) reply:add_header(name, value) end)
  return reply
end

-- Notes what the client gets with a text. HAProxy 3.4.7 crashed where an answer of a program was changed by another one.
local function note(txn)
  local lines = {}
  keep(txn, {}, function(name, value) lines[#lines + 1] = name .. ":" .. value end)
  txn:set_var("txn.override_kept", table.concat(lines, "\n"))
end

core.register_action("override_note", {"http-res"}, function(txn) pcall(note, txn) end)

core.register_action("override_keep", {"http-after-res"}, function(txn)
  for name, value in string.gmatch(txn:get_var("txn.override_kept"), "([^:\n]+):([^\n]*)") do
    txn.http:res_add_header(name, value)
  end
end)

core.register_action("override_ask", {"http-res"}, function(txn) pcall(ask, txn) end)

core.register_action("override_give", {"http-res"}, function(txn)
  local isDone, reply = pcall(give, txn)
  if isDone then
    txn:done(reply)
  end
end)
