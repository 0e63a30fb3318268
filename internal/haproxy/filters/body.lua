-- Counts the bodies of requests that do not say how long they are, and ends those that are longer than txn.max.
--
-- HAProxy passes on what a filter did not get: if there is no memory for one. So txn.counted says that there is one,
-- and HAProxy refuses a request without. A mistake while a body is counted ends the request. With txn.lenient, no
-- request is ended, and txn.long says that its body is longer.

local Counter = {id = "body", flags = filter.FLT_CFG_FL_HTX}
Counter.__index = Counter

function Counter:new()
  return setmetatable({size = 0}, Counter)
end

-- HAProxy 3.4 keeps parts of an answer back while it filters the request, unless it filters the answer too.
function Counter:start_analyze(txn, channel)
  filter.register_data_filter(self, channel)
  if not channel:is_resp() then
    self.most, self.lenient = txn:get_var("txn.max"), txn:get_var("txn.lenient")
    txn:set_var("txn.counted", true)
  end
  return filter.CONTINUE
end

-- What came may have trailers beside a part of the body, so the body is only taken out of it where it matters.
--
-- HAProxy 3.4 takes filter.ERROR for a number of bytes, and passes everything on. Only an error ends the request.
local function count(counter, txn, message)
  local size = counter.size + message:input()
  if size > counter.most then
    size = counter.size + #(message:body() or "")
  end
  if size > counter.most then
    txn:set_var("txn.long", true)
    counter.isLong = true
    error("the body of a request is longer than its rule allows", 0)
  end
  counter.size = size
end

function Counter:http_payload(txn, message)
  if message:is_resp() or self.isLong then
    return
  end
  if self.lenient then
    pcall(count, self, txn, message)
  else
    count(self, txn, message)
  end
end

core.register_filter("body", Counter, function(class) return class end)
