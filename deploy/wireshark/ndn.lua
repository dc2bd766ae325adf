-- Wireshark dissector for Named Data Networking: packet format 0.3 and NDNLPv2.
--
-- Reads frames with EtherType 0x8624 (as `nw tap -w` writes them), UDP and TCP port 6363 (streams are put together again), the UDP multicast
-- port 56363, and WebSocket messages on TCP port 9696. For one run: wireshark -X lua_script:ndn.lua packets.pcapng. For all: copy it to the
-- folder that Help > About Wireshark > Folders calls "Personal Lua Plugins".
--
-- Filters: ndn.name contains "film", ndn.type == 5 (Interest), ndn.nack_reason, ndn.lp.congestion_mark, ndn.lp.pit_token
--
-- SPDX-License-Identifier: Apache-2.0 OR MIT

local ETHERTYPE, PORT, MULTICAST_PORT, WEBSOCKET_PORT = 0x8624, 6363, 56363, 9696
-- Longer elements are no packets: a stream that claims one is out of step.
local PACKET_LEN_MAX = 8800
local DEPTH_MAX = 16

local ndn = Proto("ndn", "Named Data Networking")

-- How the value of an element is shown.
local NEST, NAME, NUMBER, BYTES, TEXT, EMPTY, COMPONENT, DELEGATIONS, TIME_MS =
  "nest", "name", "number", "bytes", "text", "empty", "component", "delegations", "ms"

-- Elements by where they stand, as numbers have other meanings elsewhere: number = { name, kind, elements inside }.
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
  [0x1e] = { "ForwardingHint", DELEGATIONS, name_only }, [0x0a] = { "Nonce", BYTES }, [0x0c] = { "InterestLifetime", TIME_MS },
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
  [0x50] = { "Fragment", "fragment" }, [0x51] = { "Sequence", BYTES }, [0x52] = { "FragIndex", NUMBER }, [0x53] = { "FragCount", NUMBER },
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
local WORDS = { NackReason = NACK_REASONS, SignatureType = SIGNATURE_TYPES, ContentType = CONTENT_TYPES }
-- Numbers in names: segments and such.
local CONVENTIONS = { [0x32] = "seg=", [0x34] = "off=", [0x36] = "v=", [0x38] = "t=", [0x3a] = "seq=" }

local fields = {
  type = ProtoField.uint32("ndn.type", "Type", base.DEC, { [5] = "Interest", [6] = "Data", [0x64] = "LpPacket" }),
  length = ProtoField.uint32("ndn.length", "Length"),
  name = ProtoField.string("ndn.name", "Name"),
  component = ProtoField.string("ndn.component", "Component"),
  nonce = ProtoField.bytes("ndn.nonce", "Nonce"),
  lifetime = ProtoField.uint64("ndn.lifetime", "InterestLifetime (ms)"),
  freshness = ProtoField.uint64("ndn.freshness", "FreshnessPeriod (ms)"),
  hop_limit = ProtoField.uint64("ndn.hop_limit", "HopLimit"),
  can_be_prefix = ProtoField.none("ndn.can_be_prefix", "CanBePrefix"),
  must_be_fresh = ProtoField.none("ndn.must_be_fresh", "MustBeFresh"),
  content_type = ProtoField.uint64("ndn.content_type", "ContentType", base.DEC, CONTENT_TYPES),
  content = ProtoField.bytes("ndn.content", "Content"),
  signature_type = ProtoField.uint64("ndn.signature_type", "SignatureType", base.DEC, SIGNATURE_TYPES),
  nack_reason = ProtoField.uint64("ndn.nack_reason", "NackReason", base.DEC, NACK_REASONS),
  lp_sequence = ProtoField.uint64("ndn.lp.sequence", "Sequence"),
  lp_frag_index = ProtoField.uint64("ndn.lp.frag_index", "FragIndex"),
  lp_frag_count = ProtoField.uint64("ndn.lp.frag_count", "FragCount"),
  lp_pit_token = ProtoField.bytes("ndn.lp.pit_token", "PitToken"),
  lp_congestion_mark = ProtoField.uint64("ndn.lp.congestion_mark", "CongestionMark"),
  lp_ack = ProtoField.uint64("ndn.lp.ack", "Ack"),
  lp_tx_sequence = ProtoField.uint64("ndn.lp.tx_sequence", "TxSequence"),
}
ndn.fields = {}
for _, field in pairs(fields) do table.insert(ndn.fields, field) end
-- Elements with a field of their own.
local FIELD_OF = {
  Nonce = fields.nonce, InterestLifetime = fields.lifetime, FreshnessPeriod = fields.freshness, HopLimit = fields.hop_limit,
  CanBePrefix = fields.can_be_prefix, MustBeFresh = fields.must_be_fresh, ContentType = fields.content_type, Content = fields.content,
  SignatureType = fields.signature_type, NackReason = fields.nack_reason, Sequence = fields.lp_sequence,
  FragIndex = fields.lp_frag_index, FragCount = fields.lp_frag_count, PitToken = fields.lp_pit_token,
  CongestionMark = fields.lp_congestion_mark, Ack = fields.lp_ack, TxSequence = fields.lp_tx_sequence,
}
local malformed = ProtoExpert.new("ndn.malformed", "Malformed NDN element", expert.group.MALFORMED, expert.severity.ERROR)
ndn.experts = { malformed }

-- A variable-size number of TLV: its value and how many bytes it has; nil where the bytes end before it does.
local function var_number(buffer, at)
  if at >= buffer:len() then return nil end
  local first = buffer(at, 1):uint()
  if first < 253 then return first, 1 end
  local bytes = ({ [253] = 2, [254] = 4, [255] = 8 })[first]
  if at + 1 + bytes > buffer:len() then return nil end
  if bytes == 8 then
    local wide = buffer(at + 1, 8):uint64()
    -- No element is that long: any number beyond the bytes says so.
    return wide:higher() == 0 and wide:lower() or 0x7fffffff, 9
  end
  return buffer(at + 1, bytes):uint(), 1 + bytes
end

-- The element at `at`: its type, where its value begins, and the value's length; nil where its head is not whole.
local function element(buffer, at)
  local kind, kind_bytes = var_number(buffer, at)
  if not kind then return nil end
  local length, length_bytes = var_number(buffer, at + kind_bytes)
  if not length then return nil end
  return kind, at + kind_bytes + length_bytes, length
end

-- A non-negative integer of 1, 2, 4 or 8 bytes; nil for others.
local function integer(range)
  local bytes = range:len()
  if bytes == 1 or bytes == 2 or bytes == 4 or bytes == 8 then return range:uint64() end
end

local function escaped(bytes)
  local text, dots = "", true
  for i = 0, bytes:len() - 1 do
    local byte = bytes:get_index(i)
    local plain = string.char(byte)
    if not plain:match("[%w%-%.%_%~]") then plain = string.format("%%%02X", byte) end
    if byte ~= 0x2e then dots = false end
    text = text .. plain
  end
  -- Components of dots alone have three more.
  return dots and "..." .. text or text
end

-- A component as URIs have it.
local function component_text(kind, range)
  if kind == 0x01 or kind == 0x02 then
    return (kind == 1 and "sha256digest=" or "params-sha256=") .. tostring(range and range:bytes() or ""):lower()
  end
  local number = range and CONVENTIONS[kind] and integer(range)
  if number then return CONVENTIONS[kind] .. tostring(number) end
  local text = range and escaped(range:bytes()) or "..."
  return kind == 8 and text or kind .. "=" .. text
end

-- A name's value as a URI.
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

-- What the packet list says of a packet. `found` gathers it while elements are read.
local function summary(found)
  if found.type == "Interest" or found.type == "Data" then
    local what = found.nack and "Nack" .. (found.nack ~= "" and "(" .. found.nack .. ")" or "") or found.type
    return what .. " " .. (found.name or "?")
  end
  if found.fragment then return "Fragment " .. found.fragment end
  return found.acks and "Ack" or "LpPacket"
end

local elements -- Calls itself.

-- One element into the tree; where the next one begins, or nil when this one is not whole.
local function one(buffer, at, stop, tree, known, depth, found)
  local kind, value, length = element(buffer, at)
  if not kind or value + length > stop then
    tree:add_proto_expert_info(malformed, "element ends beyond what holds it")
    return nil
  end
  local entry = known[kind] or { string.format("Unknown type %d", kind), BYTES }
  local title, show, inside = entry[1], entry[2], entry[3]
  local whole, range = buffer(at, value + length - at), length > 0 and buffer(value, length) or nil
  local number = range and integer(range)
  local field = FIELD_OF[title]
  local branch
  if show == NAME then
    local text = name_text(buffer, value, value + length)
    -- The packet's own name, not one in its key locator.
    if depth == 1 then found.name = text end
    branch = tree:add(fields.name, whole, text)
    elements(buffer, value, value + length, branch, inside, depth + 1, found)
  elseif show == COMPONENT then
    tree:add(fields.component, whole, component_text(kind, range)):append_text(" (" .. title .. ")")
  elseif show == NEST or show == DELEGATIONS then
    branch = tree:add(ndn, whole, title)
    if title == "Nack" then found.nack = "" end
    if title == "Interest" or title == "Data" then
      found.type, depth = title, 0
      branch:add(fields.type, buffer(at, value - at), kind):set_generated()
      branch:add(fields.length, buffer(at, value - at), length):set_generated()
    end
    if depth < DEPTH_MAX then elements(buffer, value, value + length, branch, inside, depth + 1, found) end
  elseif show == "fragment" then
    branch = tree:add(ndn, whole, title .. string.format(" (%d bytes)", length))
    if found.frag_count and found.frag_count > 1 then
      found.fragment = string.format("%d of %d", (found.frag_index or 0) + 1, found.frag_count)
    elseif range then
      elements(buffer, value, value + length, branch, packets, 0, found)
    end
  elseif field and show == EMPTY then
    tree:add(field, whole)
  elseif field and range and (show == NUMBER or show == TIME_MS) and number then
    tree:add(field, whole, number)
  elseif field == fields.lp_sequence or field == fields.lp_ack or field == fields.lp_tx_sequence then
    if number then tree:add(field, whole, number) end
  elseif field and range then
    tree:add(field, range)
  elseif number and (show == NUMBER or show == TIME_MS) then
    tree:add(ndn, whole, title .. ": " .. tostring(number) .. (show == TIME_MS and " ms" or ""))
  elseif show == TEXT and range then
    tree:add(ndn, whole, title .. ": " .. range:string())
  else
    tree:add(ndn, whole, title .. string.format(" (%d bytes)", length))
  end
  if number and title == "NackReason" then found.nack = NACK_REASONS[number:tonumber()] or tostring(number) end
  if number and title == "FragIndex" then found.frag_index = number:tonumber() end
  if number and title == "FragCount" then found.frag_count = number:tonumber() end
  if title == "Ack" then found.acks = true end
  return value + length
end

elements = function(buffer, at, stop, tree, known, depth, found)
  while at and at < stop do at = one(buffer, at, stop, tree, known, depth, found) end
end

-- One packet of `length` bytes; what it is, in a few words.
local function packet(buffer, at, length, tree)
  local range = buffer(at, length)
  local found, branch = {}, tree:add(ndn, range)
  one(buffer, at, at + length, branch, packets, 0, found)
  local words = summary(found)
  branch:append_text(", " .. words)
  return words
end

-- Bytes of the packet at `at`: nil for more than there are, 0 for what is no packet.
local function packet_len(buffer, at)
  local kind, value, length = element(buffer, at)
  if not kind then return nil end
  if not packets[kind] or value + length - at > PACKET_LEN_MAX then return 0 end
  return value + length - at
end

local function say(pinfo, words)
  pinfo.cols.protocol = "NDN"
  pinfo.cols.info = table.concat(words, ", ")
end

-- Frames, datagrams and messages: packets back to back. Ethernet may add bytes to short frames behind them.
function ndn.dissector(tvb, pinfo, tree)
  local at, words = 0, {}
  while at < tvb:len() do
    local length = packet_len(tvb, at)
    if not length or length == 0 or at + length > tvb:len() then break end
    table.insert(words, packet(tvb, at, length, tree))
    at = at + length
  end
  if #words == 0 then return 0 end
  say(pinfo, words)
  return at
end

-- A stream: what is not whole yet waits for the next segments.
local stream = Proto("ndn_stream", "Named Data Networking over a stream")
function stream.dissector(tvb, pinfo, tree)
  local at, words = 0, {}
  while at < tvb:len() do
    local length = packet_len(tvb, at)
    if length == 0 then
      -- Not NDN, or the capture began in the middle of a packet.
      break
    end
    if not length or at + length > tvb:len() then
      pinfo.desegment_offset = at
      pinfo.desegment_len = length and at + length - tvb:len() or DESEGMENT_ONE_MORE_SEGMENT
      break
    end
    table.insert(words, packet(tvb, at, length, tree))
    at = at + length
  end
  if #words > 0 then say(pinfo, words) end
  return at == 0 and pinfo.desegment_len == 0 and 0 or tvb:len()
end

DissectorTable.get("ethertype"):add(ETHERTYPE, ndn)
DissectorTable.get("udp.port"):add(PORT, ndn)
DissectorTable.get("udp.port"):add(MULTICAST_PORT, ndn)
DissectorTable.get("tcp.port"):add(PORT, stream)
-- A message of WebSocket is a packet.
local websocket = DissectorTable.get("ws.port")
if websocket then websocket:add(WEBSOCKET_PORT, ndn) end
