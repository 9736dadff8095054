-- Asks caudal about a request, for apache.conf.

local socket = require "socket"

local HOST, PORT = "127.0.0.1", 8080
local TIMEOUT_S = 1
local WHEN_AWAY = apache2.OK -- what becomes of a request when caudal does not answer; or 503

-- What caudal has to say to the client, as variables for the Header lines of apache.conf.
local PASSED_ON = {
    ["retry-after"] = "CAUDAL_RETRY", ["ratelimit-policy"] = "CAUDAL_POLICY", ["ratelimit"] = "CAUDAL_LEFT",
}
-- Fields that caudal believes of a trusted proxy, or that belong to the client's connection: never passed on as sent.
local OURS = {
    ["host"] = true, ["connection"] = true, ["content-length"] = true, ["transfer-encoding"] = true, ["expect"] = true,
    ["upgrade"] = true, ["forwarded"] = true, ["x-forwarded-for"] = true, ["x-forwarded-method"] = true,
    ["x-forwarded-uri"] = true, ["x-forwarded-host"] = true, ["x-original-method"] = true, ["x-original-uri"] = true,
    ["x-original-url"] = true, ["x-original-host"] = true,
}

local connection -- this thread's

local function question(r)
    local lines = {
        "GET /check HTTP/1.1", "Host: caudal", "X-Forwarded-Method: " .. r.method, "X-Forwarded-Uri: " .. r.unparsed_uri,
        "X-Forwarded-Host: " .. r.hostname, "X-Forwarded-For: " .. r.useragent_ip,
    }
    for name, value in pairs(r:headers_in_table()) do
        if not OURS[name:lower()] then
            lines[#lines + 1] = name .. ": " .. value
        end
    end
    return table.concat(lines, "\r\n") .. "\r\n\r\n"
end

-- The status and the fields of an answer; or nil, and why there is none.
local function read_answer()
    local line, problem = connection:receive()
    if not line then
        return nil, problem
    end
    local status = line:match("^HTTP/1%.1 (%d+)")
    local fields = {}
    while line and line ~= "" do
        local name, value = line:match("^([^:%s]+):%s*(.-)%s*$")
        if name then
            fields[name:lower()] = value
        end
        line = connection:receive()
    end
    local length = tonumber(fields["content-length"] or 0)
    if not line or length > 0 and not connection:receive(length) then -- receive(0) would wait for more
        return nil, "cut off"
    end
    return tonumber(status), fields
end

local function ask(text)
    if not connection then
        connection = socket.tcp()
        connection:settimeout(TIMEOUT_S)
        if not connection:connect(HOST, PORT) then
            connection = nil
            return nil, "away"
        end
        connection:setoption("tcp-nodelay", true)
    end
    local status, fields
    if connection:send(text) then
        status, fields = read_answer()
    else
        fields = "closed"
    end
    if not status or (fields["connection"] or ""):lower() == "close" then
        connection:close()
        connection = nil
    end
    return status, fields
end

function check(r)
    local kept, text = connection ~= nil, question(r)
    local status, fields = ask(text)
    if not status and fields == "closed" and kept then -- while it was idle: the question was not heard
        status, fields = ask(text)
    end
    if not status then
        return WHEN_AWAY
    end
    for name, variable in pairs(PASSED_ON) do
        if fields[name] then
            r.subprocess_env[variable] = fields[name]
        end
    end
    -- A question that caudal cannot read (400, 431) is refused too: clients could see to it that it is one.
    return status < 300 and apache2.OK or status
end
