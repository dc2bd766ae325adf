-- Wireshark dissector for Named Data Networking: packet format 0.3 and NDNLPv2.
--
-- Dissects frames with EtherType 0x8624 (as written by `nw tap -w`), UDP and TCP port 6363 (with stream reassembly),
-- the UDP multicast port 56363, and WebSocket messages on TCP port 9696. For a single run:
-- wireshark -X lua_script:ndn.lua packets.pcapng. For all runs, copy this file to the folder "Personal Lua Plugins" in
-- Help > About Wireshark > Folders.
--
-- Filters: ndn.name contains "film", ndn.type == 5 (Interest), ndn.nack_reason, ndn.lp.congestion_mark, ndn.lp.pit_token
--
-- SPDX-License-Identifier: Apache-2.0 OR MIT

local ETHERTYPE, PORT, MULTICAST_PORT, WEBSOCKET_PORT = 0x8624, 6363, 56363, 9696
-- Longer elements are no packets; a stream that contains one is out of sync.
local PACKET_LEN_MAX = 8800
local DEPTH_MAX = 16

local ndn = Proto("ndn", "Named Data Networking")

-- The kinds of element values.
local NEST, NAME, NUMBER, BYTES, TEXT, EMPTY, COMPONENT, FRAGMENT, TIME_MS =
  "nest", "name", "number", "bytes", "text", "empty", "component", "fragment", "ms"

-- Elements by context, because type numbers depend on it: type = { title, kind, elements inside }.
local component = {
  [0x01] = { "ImplicitSha256DigestComponent", COMPONENT }, [0x02] = { "ParametersSha256DigestComponent", COMPONENT },
  [0x08] = { "GenericNameComponent", COMPONENT }, [0x20] = { "KeywordNameComponent", COMPONENT },
  [0x32] = { "SegmentNameComponent", COMPONENT }, [0x34] = { "ByteOffsetNameComponent", COMPONENT },
  [0x36] = { "VersionNameComponent", COMPONENT }, [0x38] = { "TimestampNameComponent", COMPONENT },
  [0x3a] = { "SequenceNumNameComponent", COMPONENT },
}
local name_only = { [0x07] = { "Name", NAME, component } }
local key_locator = { [0x07] = { "Name", NAME, component }, [0x1d] = { "KeyDigest", BYTES } }
local validity = { [0xfe] = { "NotBefore", TEXT }, [0xff] = { "NotAfter", TEXT } }
local signature_info = {
  [0x1b] = { "SignatureType", NUMBER }, [0x1c] = { "KeyLocator", NEST, key_locator },
  [0x26] = { "SignatureNonce", BYTES }, [0x28] = { "SignatureTime", NUMBER }, [0x2a] = { "SignatureSeqNum", NUMBER },
  [0xfd] = { "ValidityPeriod", NEST, validity },
}
local meta_info = {
  [0x18] = { "ContentType", NUMBER }, [0x19] = { "FreshnessPeriod", TIME_MS }, [0x1a] = { "FinalBlockId", NEST, component },
}
local interest = {
  [0x07] = { "Name", NAME, component }, [0x21] = { "CanBePrefix", EMPTY }, [0x12] = { "MustBeFresh", EMPTY },
  [0x1e] = { "ForwardingHint", NEST, name_only }, [0x0a] = { "Nonce", BYTES }, [0x0c] = { "InterestLifetime", TIME_MS },
  [0x22] = { "HopLimit", NUMBER }, [0x24] = { "ApplicationParameters", BYTES },
  [0x2c] = { "InterestSignatureInfo", NEST, signature_info }, [0x2e] = { "InterestSignatureValue", BYTES },
}
local data = {
  [0x07] = { "Name", NAME, component }, [0x14] = { "MetaInfo", NEST, meta_info }, [0x15] = { "Content", BYTES },
  [0x16] = { "SignatureInfo", NEST, signature_info }, [0x17] = { "SignatureValue", BYTES },
}
local packets = { [0x05] = { "Interest", NEST, interest }, [0x06] = { "Data", NEST, data } }
local nack = { [0x0321] = { "NackReason", NUMBER } }
local link = {
  [0x50] = { "Fragment", FRAGMENT }, [0x51] = { "Sequence", BYTES }, [0x52] = { "FragIndex", NUMBER }, [0x53] = { "FragCount", NUMBER },
  [0x62] = { "PitToken", BYTES }, [0x0320] = { "Nack", NEST, nack }, [0x032c] = { "IncomingFaceId", NUMBER },
  [0x0330] = { "NextHopFaceId", NUMBER }, [0x0334] = { "CachePolicy", NEST, { [0x0335] = { "CachePolicyType", NUMBER } } },
  [0x0340] = { "CongestionMark", NUMBER }, [0x0344] = { "Ack", BYTES }, [0x0348] = { "TxSequence", BYTES },
  [0x034c] = { "NonDiscovery", EMPTY }, [0x0350] = { "PrefixAnnouncement", NEST, packets },
}
packets[0x64] = { "LpPacket", NEST, link }

local NACK_REASONS = { [0] = "None", [50] = "Congestion", [100] = "Duplicate", [150] = "NoRoute" }
local SIGNATURE_TYPES = {
  [0] = "DigestSha256", [1] = "SignatureSha256WithRsa", [3] = "SignatureSha256WithEcdsa", [4] = "SignatureHmacWithSha256",
  [5] = "SignatureEd25519", [200] = "Null",
}
local CONTENT_TYPES = { [0] = "Blob", [1] = "Link", [2] = "Key", [3] = "Nack", [4] = "Manifest", [5] = "PrefixAnn" }
-- Prefixes of typed name components with numbers.
local CONVENTIONS = { [0x32] = "seg=", [0x34] = "off=", [0x36] = "v=", [0x38] = "t=", [0x3a] = "seq=" }

-- The fields for filters by key, and the titles of the elements that have one.
local fields, FIELD_OF = {}, {}
ndn.fields = {}

-- Adds the field `ndn.<filter>`, which shows the elements with its label unless `element_title` names others.
local function add_field(key, constructor, filter, label, element_title, ...)
  local field = constructor("ndn." .. filter, label, ...)
  fields[key] = field
  table.insert(ndn.fields, field)
  if element_title then FIELD_OF[element_title] = field end
end

add_field("type", ProtoField.uint32, "type", "Type", nil, base.DEC, { [5] = "Interest", [6] = "Data", [0x64] = "LpPacket" })
add_field("length", ProtoField.uint32, "length", "Length")
add_field("name", ProtoField.string, "name", "Name")
add_field("component", ProtoField.string, "component", "Component")
add_field("lifetime", ProtoField.uint64, "lifetime", "InterestLifetime (ms)", "InterestLifetime")
add_field("freshness", ProtoField.uint64, "freshness", "FreshnessPeriod (ms)", "FreshnessPeriod")

-- Fields that are labelled like their elements: { filter, title, values }.
for constructor, list in pairs({
  [ProtoField.bytes] = { { "nonce", "Nonce" }, { "content", "Content" }, { "lp.pit_token", "PitToken" } },
  [ProtoField.none] = { { "can_be_prefix", "CanBePrefix" }, { "must_be_fresh", "MustBeFresh" } },
  [ProtoField.uint64] = {
    { "hop_limit", "HopLimit" }, { "content_type", "ContentType", CONTENT_TYPES },
    { "signature_type", "SignatureType", SIGNATURE_TYPES }, { "nack_reason", "NackReason", NACK_REASONS },
    { "lp.sequence", "Sequence" }, { "lp.frag_index", "FragIndex" }, { "lp.frag_count", "FragCount" },
    { "lp.congestion_mark", "CongestionMark" }, { "lp.ack", "Ack" }, { "lp.tx_sequence", "TxSequence" },
  },
}) do
  for _, entry in ipairs(list) do
    local filter, title, values = entry[1], entry[2], entry[3]
    if values then
      add_field(filter, constructor, filter, title, title, base.DEC, values)
    else
      add_field(filter, constructor, filter, title, title)
    end
  end
end
-- Numbers of any length that are encoded as bytes.
local IS_SEQUENCE = { Sequence = true, Ack = true, TxSequence = true }
local malformed = ProtoExpert.new("ndn.malformed", "Malformed NDN element", expert.group.MALFORMED, expert.severity.ERROR)
ndn.experts = { malformed }

-- Returns the value and the length in bytes of a TLV number, or nil if the buffer ends before the
-- number.
local function var_number(buffer, at)
  if at >= buffer:len() then return nil end
  local first = buffer(at, 1):uint()
  if first < 253 then return first, 1 end
  local bytes = ({ [253] = 2, [254] = 4, [255] = 8 })[first]
  if at + 1 + bytes > buffer:len() then return nil end
  if bytes == 8 then
    local wide = buffer(at + 1, 8):uint64()
    -- No element is that long, so any number beyond the buffer will do.
    return wide:higher() == 0 and wide:lower() or 0x7fffffff, 9
  end
  return buffer(at + 1, bytes):uint(), 1 + bytes
end

-- Returns the type of the element at `at`, the start of its value and the value's length, or nil if the header is incomplete.
local function element(buffer, at)
  local kind, kind_bytes = var_number(buffer, at)
  if not kind then return nil end
  local length, length_bytes = var_number(buffer, at + kind_bytes)
  if not length then return nil end
  return kind, at + kind_bytes + length_bytes, length
end

-- Returns a non-negative integer of 1, 2, 4 or 8 bytes, or nil for other lengths.
local function integer(range)
  local bytes = range:len()
  if bytes == 1 or bytes == 2 or bytes == 4 or bytes == 8 then return range:uint64() end
end

-- Returns the bytes of a component with percent-encoding.
local function percent_encode(bytes)
  local text, only_dots = "", true
  for i = 0, bytes:len() - 1 do
    local byte = bytes:get_index(i)
    local character = string.char(byte)
    if not character:match("[%w%-%.%_%~]") then character = string.format("%%%02X", byte) end
    if byte ~= 0x2e then only_dots = false end
    text = text .. character
  end
  -- URIs add three dots to a component that consists of dots only.
  return only_dots and "..." .. text or text
end

-- Returns a component as in a URI.
local function component_text(kind, range)
  if kind == 0x01 or kind == 0x02 then
    return (kind == 1 and "sha256digest=" or "params-sha256=") .. tostring(range and range:bytes() or ""):lower()
  end
  local number = range and CONVENTIONS[kind] and integer(range)
  if number then return CONVENTIONS[kind] .. tostring(number) end
  local text = range and percent_encode(range:bytes()) or "..."
  return kind == 8 and text or kind .. "=" .. text
end

-- Returns the value of a name as a URI.
local function name_text(buffer, at, stop)
  local text = ""
  while at < stop do
    local kind, value, length = element(buffer, at)
    if not kind or value + length > stop then return text .. "/?" end
    text = text .. "/" .. component_text(kind, length > 0 and buffer(value, length) or nil)
    at = value + length
  end
  return text == "" and "/" or text
end

-- Returns the text of a packet for the packet list, from the values in `found` that were collected by the elements.
local function summary(found)
  if found.type == "Interest" or found.type == "Data" then
    local title = found.nack and "Nack" .. (found.nack ~= "" and "(" .. found.nack .. ")" or "") or found.type
    return title .. " " .. (found.name or "?")
  end
  if found.fragment then return "Fragment " .. found.fragment end
  return found.acks and "Ack" or "LpPacket"
end

local dissect_elements -- Called recursively by the functions below.

-- Adds an element without a field: its title, and its value if it can be shown.
local function add_plain(e, tree)
  if e.number and (e.kind == NUMBER or e.kind == TIME_MS) then
    tree:add(ndn, e.whole, e.title .. ": " .. tostring(e.number) .. (e.kind == TIME_MS and " ms" or ""))
  elseif e.kind == TEXT and e.value then
    tree:add(ndn, e.whole, e.title .. ": " .. e.value:string())
  else
    tree:add(ndn, e.whole, e.title .. string.format(" (%d bytes)", e.length))
  end
end

-- Adds an element with a single value, to its field if it has one.
local function add_value(e, tree)
  local field = FIELD_OF[e.title]
  if not field then
    add_plain(e, tree)
  elseif e.kind == EMPTY then
    tree:add(field, e.whole)
  elseif IS_SEQUENCE[e.title] or e.kind == NUMBER or e.kind == TIME_MS then
    if e.number then tree:add(field, e.whole, e.number) else add_plain(e, tree) end
  elseif e.value then
    tree:add(field, e.value)
  else
    add_plain(e, tree)
  end
end

local function add_name(e, tree, depth, found)
  local text = name_text(e.buffer, e.start, e.stop)
  -- The name of the packet itself, not of its key locator.
  if depth == 1 then found.name = text end
  local branch = tree:add(fields.name, e.whole, text)
  dissect_elements(e.buffer, e.start, e.stop, branch, e.inside, depth + 1, found)
end

local function add_component(e, tree)
  tree:add(fields.component, e.whole, component_text(e.type, e.value)):append_text(" (" .. e.title .. ")")
end

local function add_nested(e, tree, depth, found)
  local branch = tree:add(ndn, e.whole, e.title)
  if e.title == "Nack" then found.nack = "" end
  if e.title == "Interest" or e.title == "Data" then
    found.type, depth = e.title, 0
    branch:add(fields.type, e.header, e.type):set_generated()
    branch:add(fields.length, e.header, e.length):set_generated()
  end
  if depth < DEPTH_MAX then
    dissect_elements(e.buffer, e.start, e.stop, branch, e.inside, depth + 1, found)
  end
end

local function add_fragment(e, tree, _, found)
  local branch = tree:add(ndn, e.whole, e.title .. string.format(" (%d bytes)", e.length))
  if found.frag_count and found.frag_count > 1 then
    found.fragment = string.format("%d of %d", (found.frag_index or 0) + 1, found.frag_count)
  elseif e.value then
    dissect_elements(e.buffer, e.start, e.stop, branch, packets, 0, found)
  end
end

local ADD = {
  [NAME] = add_name,
  [COMPONENT] = add_component,
  [NEST] = add_nested,
  [FRAGMENT] = add_fragment,
}

-- Collects the values of link headers for the summary.
local function collect(e, found)
  if e.title == "Ack" then found.acks = true end
  if not e.number then return end
  local number = e.number:tonumber()
  if e.title == "NackReason" then found.nack = NACK_REASONS[number] or tostring(e.number) end
  if e.title == "FragIndex" then found.frag_index = number end
  if e.title == "FragCount" then found.frag_count = number end
end

-- Adds an element to the tree and returns the start of the next one, or nil if this one is
-- incomplete.
local function dissect_element(buffer, at, stop, tree, known, depth, found)
  local type_number, start, length = element(buffer, at)
  if not type_number or start + length > stop then
    tree:add_proto_expert_info(malformed, "the element ends beyond its parent")
    return nil
  end
  local entry = known[type_number] or { string.format("Unknown type %d", type_number), BYTES }
  local value = length > 0 and buffer(start, length) or nil
  local e = {
    type = type_number, title = entry[1], kind = entry[2], inside = entry[3],
    buffer = buffer, start = start, stop = start + length, length = length,
    header = buffer(at, start - at), whole = buffer(at, start + length - at),
    value = value, number = value and integer(value),
  }
  local add = ADD[e.kind] or add_value
  add(e, tree, depth, found)
  collect(e, found)
  return e.stop
end

dissect_elements = function(buffer, at, stop, tree, known, depth, found)
  while at and at < stop do at = dissect_element(buffer, at, stop, tree, known, depth, found) end
end

-- Dissects a packet of `length` bytes and returns its summary.
local function dissect_packet(buffer, at, length, tree)
  local range = buffer(at, length)
  local found, branch = {}, tree:add(ndn, range)
  dissect_element(buffer, at, at + length, branch, packets, 0, found)
  local text = summary(found)
  branch:append_text(", " .. text)
  return text
end

-- Returns the length of the packet at `at` in bytes, nil if its header is incomplete, or 0 if it is no packet.
local function packet_len(buffer, at)
  local kind, value, length = element(buffer, at)
  if not kind then return nil end
  if not packets[kind] or value + length - at > PACKET_LEN_MAX then return 0 end
  return value + length - at
end

local function set_columns(pinfo, summaries)
  pinfo.cols.protocol = "NDN"
  pinfo.cols.info = table.concat(summaries, ", ")
end

-- Dissects frames, datagrams and messages, which contain one or more packets. Ethernet pads short
-- frames.
function ndn.dissector(tvb, pinfo, tree)
  local at, summaries = 0, {}
  while at < tvb:len() do
    local length = packet_len(tvb, at)
    if not length or length == 0 or at + length > tvb:len() then break end
    table.insert(summaries, dissect_packet(tvb, at, length, tree))
    at = at + length
  end
  if #summaries == 0 then return 0 end
  set_columns(pinfo, summaries)
  return at
end

-- Dissects a stream; an incomplete packet waits for the next segments.
local stream = Proto("ndn_stream", "Named Data Networking over a stream")
function stream.dissector(tvb, pinfo, tree)
  local at, summaries = 0, {}
  while at < tvb:len() do
    local length = packet_len(tvb, at)
    if length == 0 then
      -- Not NDN, or the capture starts in the middle of a packet.
      break
    end
    if not length or at + length > tvb:len() then
      pinfo.desegment_offset = at
      pinfo.desegment_len = length and at + length - tvb:len() or DESEGMENT_ONE_MORE_SEGMENT
      break
    end
    table.insert(summaries, dissect_packet(tvb, at, length, tree))
    at = at + length
  end
  if #summaries > 0 then set_columns(pinfo, summaries) end
  return at == 0 and pinfo.desegment_len == 0 and 0 or tvb:len()
end

DissectorTable.get("ethertype"):add(ETHERTYPE, ndn)
DissectorTable.get("udp.port"):add(PORT, ndn)
DissectorTable.get("udp.port"):add(MULTICAST_PORT, ndn)
DissectorTable.get("tcp.port"):add(PORT, stream)
-- A WebSocket message is a packet.
local websocket = DissectorTable.get("ws.port")
if websocket then websocket:add(WEBSOCKET_PORT, ndn) end
