-- Counts the bodies of requests that do not say how long they are, and ends those that are longer than txn.max.
--
-- HAProxy passes on what a filter did not get: if there is no memory for one. So txn.counted says that there is one,
-- and HAProxy refuses a request without. A mistake while a body is counted ends the request.

local Counter = {id = "body", flags = filter.FLT_CFG_FL_HTX}
Counter.__index = Counter

function Counter:new()
  return setmetatable({size = 0}, Counter)
end

-- HAProxy 3.4 keeps parts of an answer back while it filters the request, unless it filters the answer too.
function Counter:start_analyze(txn, channel)
  filter.register_data_filter(self, channel)
  if not channel:is_resp() then
    self.most = txn:get_var("txn.max")
    txn:set_var("txn.counted", true)
  end
  return filter.CONTINUE
end

-- What came may have trailers beside a part of the body, so the body is only taken out of it where it matters.
--
-- HAProxy 3.4 takes filter.ERROR for a number of bytes, and passes everything on. Only an error ends the request.
function Counter:http_payload(txn, message)
  if message:is_resp() then
    return
  end
  local size = self.size + message:input()
  if size > self.most then
    size = self.size + #(message:body() or "")
  end
  if size > self.most then
    txn:set_var("txn.long", true)
    error("the body of a request is longer than its rule allows", 0)
  end
  self.size = size
end

core.register_filter("body", Counter, function(class) return class end)
