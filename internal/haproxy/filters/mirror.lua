-- Sends copies of requests to the socket that leads them to their backends, and throws the answers away.
--
-- A request never waits for its copies: each is sent by a task of its own. What a task does wrong ends that task alone,
-- and what the action does wrong leaves the request as it is. The process has so many copies on their way at a time,
-- and so do one backend and one team. The socket answers in the end, and with few bytes.

local address, ofTeam = ...
local copies, seconds = 256, 60

-- How many copies this thread may have on their way, to all backends and to one, and of a team, so that a backend that
-- hangs leaves room for the others. The number of threads is not known before the first request.
local mostAll, mostEach, mostTeam
local all, each, teams = 0, {}, {}

local function send(backend, team, method, request)
  pcall(exchange, address, seconds, method, request)
  all = all - 1
  each[backend] = each[backend] > 1 and each[backend] - 1 or nil
  teams[team] = teams[team] > 1 and teams[team] - 1 or nil
end

local function mirror(txn)
  if not mostAll then
    local share = copies // core.get_info().Nbthread
    mostAll = share > 8 and share or 8
    mostEach = mostAll // 2
    mostTeam = (tonumber(ofTeam) * mostAll + copies - 1) // copies
  end
  local body = txn.f:req_body() or ""
  if #body ~= (tonumber(txn.f:req_hdr("content-length", 1)) or 0) then
    return -- The rest of it is still to come.
  end
  local draw, path, method = txn:get_var("txn.draw"), txn.f:pathq(), txn.f:method()
  local version = txn.f:req_ver() == "1.0" and "1.0" or "1.1" -- Only HTTP/1.0 may be without Host.
  local rest
  local team = txn:get_var("txn.team") or ""
  for backend, share in string.gmatch(txn:get_var("txn.mirrors"), "([^:,]+):(%d+)") do
    local now, before = each[backend] or 0, teams[team] or 0
    if draw < tonumber(share) and all < mostAll and now < mostEach and (team == "" or before < mostTeam) then
      rest = rest or table.concat({"\r\n", txn.f:req_hdrs(), body})
      core.register_task(send, backend, team, method, table.concat({method, " ", path, " HTTP/", version, "\r\nx-mirror-to: ", backend, rest}))
      all, each[backend], teams[team] = all + 1, now + 1, before + 1
    end
  end
end

core.register_action("mirror", {"http-req"}, function(txn) pcall(mirror, txn) end)
