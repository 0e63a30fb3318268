-- Replaces what an answer says about addresses: the beginning of the URLs in Location and Refresh, and the domain and
-- the beginning of the path of cookies. The parameters of the rule say by what. A mistake in here leaves the header as
-- it is.

-- Returns a function that replaces what a parameter of the rule has, by another function. nil: there is none.
local function replacement(txn, name, replace)
  local filters = txn:get_var("txn.filters")
  local from, to = txn.c:param(filters, name), txn.c:param(filters, name .. ".to")
  if from and to then
    from, to = txn.c:url_dec(from), txn.c:url_dec(to)
    return function(text) return replace(text, from, to) end
  end
end

local function beginning(text, from, to)
  return string.sub(text, 1, #from) == from and to .. string.sub(text, #from + 1) or text
end

-- A dot before a domain has no meaning, and stays.
local function domain(text, from, to)
  local dot, name = string.match(text, "^(%.?)(.*)$")
  return string.lower(name) == from and dot .. to or text
end

-- Changes the values of a header. Patterns take time in proportion to a value: HAProxy cannot interrupt them, and ends
-- when one goes on for about a second.
local function change(http, name, values, f)
  local all = {}
  for i = 0, #values do
    all[#all + 1] = f(values[i])
  end
  http:res_del_header(name)
  for _, value in ipairs(all) do
    http:res_add_header(name, value)
  end
end

local function rewrite(txn)
  local headers = txn.http:res_get_headers()
  local location = replacement(txn, "answer.location", beginning)
  if location and headers["location"] then
    change(txn.http, "location", headers["location"], location)
  end
  if location and headers["refresh"] then
    change(txn.http, "refresh", headers["refresh"], function(value)
      return (string.gsub(value, "^(.-[uU][rR][lL]=)(.*)$", function(before, url) return before .. location(url) end))
    end)
  end
  local attributes = {domain = replacement(txn, "answer.domain", domain), path = replacement(txn, "answer.path", beginning)}
  if next(attributes) and headers["set-cookie"] then
    change(txn.http, "set-cookie", headers["set-cookie"], function(cookie)
      return (string.gsub(cookie, "(;%s*(%a+)%s*=%s*)([^;]*)", function(before, name, value)
        local attribute = attributes[string.lower(name)]
        return attribute and before .. attribute(string.match(value, "^(.*%S)") or "")
      end))
    end)
  end
end

core.register_action("rewrite_response", {"http-res"}, function(txn) pcall(rewrite, txn) end)
