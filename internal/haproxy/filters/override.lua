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
  return reply
end

core.register_action("override_ask", {"http-res"}, function(txn) pcall(ask, txn) end)

core.register_action("override_give", {"http-res"}, function(txn)
  local isDone, reply = pcall(give, txn)
  if isDone then
    txn:done(reply)
  end
end)
