package command

import "github.com/quorumlock/go-redlock/internal/guard"

// The parts of scripts that check the marker. The marker is the last of KEYS. The expected marker
// is the last of ARGV, which the node appends. Behind a proxy the script reads which server it
// runs on.
const (
	wanted = `
local want = ARGV[#ARGV]
if string.sub(want, 1, 5) == '` + guard.Version + `|?|?' then
  local info = redis.call('INFO', 'server') .. redis.call('INFO', 'replication')
  local run, replid2 = string.match(info, 'run_id:(%x+)'), string.match(info, 'master_replid2:(%x+)')
  if string.match(info, 'role:(%a+)') ~= 'master' or not run or not replid2 then
    return redis.error_reply('READONLY redlock: not a master')
  end
  want = '` + guard.Version + `|' .. run .. '|' .. replid2 .. string.sub(want, 6)
end
`
	// marked refuses if the marker is another one.
	marked = wanted + `
if redis.pcall('GET', KEYS[#KEYS]) ~= want then return redis.error_reply('UNMARKED redlock: not the marker expected') end
`
	// compared checks whether the effect counts, and doneMarked returns that.
	compared = wanted + `
local counts = redis.pcall('GET', KEYS[#KEYS]) == want
`
	doneMarked = `
if not counts then return -1 end
return 1
`
)

// ReadServer is the beginning of a script that writes a marker: it reads which server the script runs on, and
// never takes that from an argument.
const ReadServer = `
local info = redis.call('INFO', 'server') .. redis.call('INFO', 'replication')
local run, replid2 = string.match(info, 'run_id:(%x+)'), string.match(info, 'master_replid2:(%x+)')
if string.match(info, 'role:(%a+)') ~= 'master' then return {'replica'} end
if not run or not replid2 then return redis.error_reply('ERR redlock: INFO shows no run_id or master_replid2') end
local head = table.concat({ARGV[1], run, replid2, ARGV[2], ''}, '|')
`

// verify is the second script of docs/dev/rules.md rule 16: if anything differs, it decides.
const verify = ReadServer + `
local clock = redis.call('TIME')
local now, full = clock[1] * 1000 + math.floor(clock[2] / 1000), tonumber(ARGV[3])
local old = redis.pcall('GET', KEYS[1])
if type(old) == 'table' then
  if string.find(old.err, 'WRONGTYPE', 1, true) then return {'foreign', ''} end
  return old
end
if old then
  local version, r, p, agreed, state = string.match(old, '^(%d+)|(%x+)|(%x+)|(.*)|(%w+)$')
  local till = tonumber(string.match(state or '', '^q(%d+)$') or '')
  if version ~= ARGV[1] or agreed ~= ARGV[2] or not till and state ~= 'ok' then return {'foreign', old} end
  if r == run and p == replid2 then
    if state == 'ok' then return {'ok', old} end
    if till <= now + full then
      if now < till or ARGV[4] ~= 'end' then return {'quarantined', math.max(0, till - now), 0} end
      redis.call('SET', KEYS[1], head .. 'ok')
      return {'ok', head .. 'ok'}
    end
  end
end
redis.call('SET', KEYS[1], head .. 'q' .. string.format('%.0f', now + full))
return {'quarantined', full, 1}
`
