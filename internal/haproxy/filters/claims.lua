-- Reads what HAProxy's converters cannot read of a token. What this cannot read either has no value, and HAProxy refuses
-- the token.

local match, sub = string.match, string.sub

-- Returns a character as HAProxy reads it. U+0001 is a mark: see claims.go.
local function write(code)
  assert(code ~= 1 and code < 0xD800 or code > 0xDFFF)
  if code < 0x20 or code == 0x22 or code == 0x5C then
    return string.format("\\u%04x", code)
  end
  return utf8.char(code)
end

-- Returns JSON without the escapes that HAProxy does not know.
local function plain(text)
  assert(not string.find(text, "\1", 1, true))
  local parts, at = {}, 1
  while true do
    local from = string.find(text, "\\", at, true)
    parts[#parts + 1] = sub(text, at, (from or 0) - 1)
    if not from then
      return table.concat(parts)
    end
    local high, low = match(text, "^\\u([Dd][89ABab]%x%x)\\u([Dd][C-Fc-f]%x%x)", from)
    local code = match(text, "^\\u(%x%x%x%x)", from)
    if high then
      parts[#parts + 1] = utf8.char(0x10000 + (tonumber(high, 16) - 0xD800) * 0x400 + tonumber(low, 16) - 0xDC00)
      at = from + 12
    elseif code then
      parts[#parts + 1] = write(tonumber(code, 16))
      at = from + 6
    else
      parts[#parts + 1] = match(text, "^\\(/)", from) or assert(match(text, '^\\["\\bfnrt]', from))
      at = from + 2
    end
  end
end

-- Returns the last whole second that is not after a number.
local function floor(text)
  local number = tonumber(text)
  assert(number >= -2^53 and number <= 2^53)
  return number // 1 | 0
end

-- Returns the first whole second that is not before a number.
local function ceiling(text)
  return floor(text) + (tonumber(text) % 1 > 0 and 1 or 0)
end

for name, convert in pairs({plain = plain, floor = floor, ceiling = ceiling}) do
  core.register_converters(name, function(text)
    local isRead, value = pcall(convert, text)
    if isRead then
      return value
    end
  end)
end
