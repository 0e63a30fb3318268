-- Asks gateway-waf whether a request looks like an attack.
--
-- If it does not, txn.authorized is set; if it does, txn.waf_denied. In all other cases, a mistake in here among them,
-- neither is set, and HAProxy refuses the request. What rules found is in txn.waf_log, in a form that nothing of a
-- request gets into.

local address = ...

-- gateway-waf waits for a turn for 2 s, and may take seconds for the longest bodies.
local seconds = 10

-- The number of the last question of this thread.
local last = 0

-- The text of a question: a line with its length, its number and the settings, the first line of the request, and the
-- request as the backend gets it.
local function question(txn, number)
  local text = table.concat({
    txn:get_var("txn.waf_client"), " ", txn:get_var("txn.team") or "-", " ", txn.f:method(), " HTTP/", txn.f:req_ver(), " ", txn.f:pathq() or "*", "\r\n",
    txn.f:req_hdrs(), txn.f:req_body(),
  })
  return table.concat({#text, " ", number, " ", txn:get_var("txn.waf"), "\n", text})
end

-- The verdict in the answer to a question, and what to log. A connection with any other answer ends, that to another
-- question among them: the next one would not be that to the next question.
local function read(line, number)
  local of, verdict, log = string.match(line, '^(%d+) (%a+) ({"score":%d+,"rules":%[[%d,]*%]})$')
  return of == tostring(number) and #log < 1000 and {verdict = verdict, log = log}
end

local function decide(txn)
  last = last + 1
  local number = last
  local answer = converse(address, seconds, question(txn, number), function(line)
    return read(line, number)
  end)
  txn:set_var("txn.waf_log", answer.log)
  if answer.verdict == "allow" then
    txn:set_var("txn.authorized", true)
  elseif answer.verdict == "deny" then
    txn:set_var("txn.waf_denied", true)
  end
end

core.register_action("waf", {"http-req"}, function(txn)
  pcall(decide, txn)
end)
