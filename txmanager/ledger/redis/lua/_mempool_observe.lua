-- A count that was read: a higher one always counts, a lower one only after a reorg, and never on a strict node.
local function observe(s, read)
  local before, floor = s.count, floor_of(s)
  local reorg = read.count < before and not L.strict and read.orphaned ~= '-' and read.orphaned == s.block
  s.read = now
  if read.count < before and not reorg then return 'lower', {} end
  if read.count ~= before or not below(read.height, s.height) then s.block, s.height = read.block, read.height end
  s.count, s.pending = read.count, read.pending
  local low, high = before, read.count
  if reorg then low, high = read.count, before end
  local landed = {}
  if low < high then
    for _, nonce in ipairs(nonces_from(s, low)) do
      if nonce >= high then break end
      local first = true
      for hash in string.gmatch(hashes_at(s.address, nonce), '%S+') do
        local t = tx(hash)
        if not reorg then
          if t.state == 'processing' then release(s.address) end
          move(t, 'landed')
          landed[#landed + 1] = hash
        elseif t.state == 'landed' then
          move(t, first and 'unsure' or 'sent')
        end
        first = false
      end
    end
  end
  if floor_of(s) < floor then
    s.run, s.next = floor_of(s), s.count
    while newest(s, s.run) do s.run = later(s.run) end
    regap(s)
  end
  walk(s)
  arrange(s)
  return reorg and 'lowered' or (before < read.count and 'raised' or 'same'), landed
end
local function base_of(s)
  return {s.count, s.block, s.height, s.run, now - s.read < L.count_fresh_ms and '1' or '0'}
end
