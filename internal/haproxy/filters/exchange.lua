-- Sends requests over sockets of HAProxy itself, and reads its answers: HAProxy's HTTP client would take twice the CPU
-- time. Connections are kept. HAProxy ends a message properly and in the size of its buffer, or closes.

-- Kept connections by address, the last one in use at the end. A task closes those that were not in use for a second or
-- two: HAProxy would keep them, and an old worker with them.
local idle, second, isWatched = {}, 0, false

local function watch()
  local left
  repeat
    core.sleep(1)
    left, second = 0, second + 1
    for _, kept in pairs(idle) do
      while kept[1] and kept[1].since < second - 1 do
        table.remove(kept, 1).socket:close()
      end
      left = left + #kept
    end
  until left == 0
  isWatched = false
end

local function keep(address, socket)
  idle[address] = idle[address] or {}
  table.insert(idle[address], {socket = socket, since = second})
  if not isWatched then
    isWatched = true
    core.register_task(watch)
  end
end

local function take(address)
  local kept = idle[address] and table.remove(idle[address])
  return kept and kept.socket
end

-- Returns the lines of headers as lists of values by name, nil if they do not end.
local function readHeaders(socket)
  local headers, line = {}, socket:receive("*l")
  while line and line ~= "" do
    local name, value = string.match(line, "^([^:]+): ?(.*)$")
    local values = headers[name]
    if values then
      values[#values + 1] = value
    else
      headers[name] = {value}
    end
    line = socket:receive("*l")
  end
  return line and headers
end

local function readChunks(socket)
  local chunks, size = {}, nil
  repeat
    size = tonumber(string.match(socket:receive("*l"), "^%x+"), 16)
    chunks[#chunks + 1] = size > 0 and socket:receive(size) or nil
    local _ = size > 0 and socket:receive("*l")
  until size == 0
  return readHeaders(socket) and table.concat(chunks)
end

-- Returns the body of an answer, nil if it is not whole, and whether the connection ends with it.
local function readBody(socket, answer, method)
  local length = answer.headers["content-length"]
  if method == "HEAD" or answer.status == 204 or answer.status == 304 then
    return ""
  elseif answer.headers["transfer-encoding"] then
    return readChunks(socket)
  elseif not length then
    return socket:receive("*a") or "", true
  end
  length = tonumber(length[1])
  local body = length == 0 and "" or socket:receive(length)
  return body and #body == length and body
end

-- Returns the answer that begins with a line, nil if it is not whole, and whether the connection ends with it.
local function read(socket, method, line)
  local answer = {}
  repeat
    answer.status = line and tonumber(string.match(line, "^HTTP/1%.%d (%d%d%d)"))
    answer.headers = answer.status and readHeaders(socket)
    if not answer.headers then
      return nil
    end
    line = answer.status < 200 and socket:receive("*l")
  until answer.status >= 200
  local body, ends = readBody(socket, answer, method)
  answer.body = body
  return body and answer, ends or answer.headers["connection"] ~= nil
end

-- Sends a request, and returns the first line of the answer.
local function ask(socket, seconds, request)
  socket:settimeout(seconds)
  socket:send(request)
  return socket:receive("*l")
end

-- Sends a request over a kept connection, and returns it with the first line of the answer. Some were closed meanwhile,
-- which shows at once: then another one is tried. Where there was a wait, somebody may have got the request.
local function askKept(address, seconds, request)
  local socket, start = take(address), core.now().sec
  while socket do
    local isDone, line = pcall(ask, socket, seconds, request)
    if isDone and line or core.now().sec - start > 2 then
      return socket, line
    end
    socket:close()
    socket = take(address)
  end
end

-- Sends a request to an address, and returns what finish makes of the first line of the answer; nil if there is none
-- within so many seconds. finish also gets the socket, and may say that the connection ends. No more than one request
-- gets to where the address leads.
function converse(address, seconds, request, finish)
  local socket, line = askKept(address, seconds, request)
  if not socket then
    socket = core.tcp()
    socket:settimeout(seconds)
    line = socket:connect(address) and ask(socket, seconds, request)
  end
  local isRead, answer, ends = pcall(finish, line, socket)
  if isRead and answer and not ends then
    keep(address, socket)
  else
    socket:close()
  end
  return isRead and answer or nil
end

-- Sends a request with this method, and returns the answer: its status, headers and body. Values of headers are lists.
function exchange(address, seconds, method, request)
  return converse(address, seconds, request, function(line, socket)
    return read(socket, method, line)
  end)
end
