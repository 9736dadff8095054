-- Asks caudal about a request, for haproxy.cfg. Its argument is the address of /check.
--
-- A request that is refused is answered here, with what caudal said. For one that passes, txn.caudal_policy and
-- txn.caudal_left are the RateLimit fields. txn.caudal_answered is true unless caudal did not answer.

local TIMEOUT_MS = 1000

-- Fields that caudal believes of a trusted proxy, or that belong to the client's connection: never passed on as sent.
local OURS = {
    ["host"] = true, ["connection"] = true, ["content-length"] = true, ["transfer-encoding"] = true, ["expect"] = true,
    ["upgrade"] = true, ["forwarded"] = true, ["x-forwarded-for"] = true, ["x-forwarded-method"] = true,
    ["x-forwarded-uri"] = true, ["x-forwarded-host"] = true, ["x-original-method"] = true, ["x-original-uri"] = true,
    ["x-original-url"] = true, ["x-original-host"] = true,
}

-- HAProxy numbers the values of a field from 0.
local function list_of(values)
    local list = {}
    for i = 0, #values do
        list[#list + 1] = values[i]
    end
    return list
end

-- Gives the client caudal's own answer, and ends.
local function refuse(txn, answer)
    local reply = txn:reply({status = answer.status, body = answer.body or ""})
    for name, values in pairs(answer.headers) do
        if not OURS[name] then
            for _, value in ipairs(list_of(values)) do
                reply:add_header(name, value)
            end
        end
    end
    txn:done(reply)
end

local function ask(txn, url)
    local headers = {}
    for name, values in pairs(txn.http:req_get_headers()) do
        if not OURS[name] then
            headers[name] = list_of(values)
        end
    end
    headers["x-forwarded-for"] = {txn.f:src()}
    headers["x-forwarded-method"] = {txn.f:method()}
    headers["x-forwarded-uri"] = {txn.f:pathq()}
    headers["x-forwarded-host"] = {txn.f:req_hdr("host")}

    local answer = core.httpclient():get{url = url, headers = headers, timeout = TIMEOUT_MS}
    if not answer or not answer.status or answer.status == 0 then
        return
    end
    txn:set_var("txn.caudal_answered", true)
    -- A question that caudal cannot read (400, 431) is refused too: clients could see to it that it is one.
    if answer.status >= 300 then
        refuse(txn, answer)
    end
    for variable, name in pairs({caudal_policy = "ratelimit-policy", caudal_left = "ratelimit"}) do
        if answer.headers[name] then
            txn:set_var("txn." .. variable, answer.headers[name][0])
        end
    end
end

core.register_action("caudal", {"http-req"}, ask, 1)
