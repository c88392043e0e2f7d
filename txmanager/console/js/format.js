// Values as people read them. Money and nonces stay text: a float would lose digits.

const UNITS = [['d', 86400], ['h', 3600], ['min', 60], ['s', 1]]

/** `span(93000)` is "1 min 33 s" */
export function span(ms) {
  let left = Math.max(0, Math.round(ms / 1000))
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`
  const parts = []
  for (const [name, size] of UNITS) {
    if (left >= size && parts.length < 2) {
      parts.push(`${Math.floor(left / size)} ${name}`)
      left %= size
    } else if (parts.length) break
  }
  return parts.join(' ') || '0 s'
}

/** "3 min ago", one unit: it changes seldom. */
export function ago(ms) {
  if (ms < 1000) return 'now'
  const [name, size] = UNITS.find(([, size]) => ms >= size * 1000) ?? UNITS.at(-1)
  return `${Math.floor(ms / 1000 / size)} ${name} ago`
}

export const exact = at => new Date(at).toISOString().replace('T', ' ').replace('Z', ' UTC')

/** Coins at a glance: what stands where the exact amount is on hover. */
export const brief = (amount, unit) =>
  coins(amount, unit, unit && String(amount).length > unit.decimals + 3 ? 0 : 3).replace(/\.?…/, '')

export const grouped = value => String(value ?? '').replace(/\B(?=(\d{3})+(?!\d))/g, ' ')

/** The two ends of a long name: enough to tell it from its neighbours. */
export const short = (text, head = 10, tail = 6) =>
  text.length <= head + tail + 1 ? text : `${text.slice(0, head)}…${text.slice(-tail)}`

/** A lane by its account and both ends of its key; the whole id is on hover. */
export function laneName(lane) {
  const parts = lane.split(':').filter(part => part !== 'ed25519')
  const key = parts.findIndex(part => part.length > 20)
  const named = key < 0 ? parts : parts.map((part, n) => (n === key ? short(part, 7, 4) : part))
  return named.slice(Math.max(0, (key < 0 ? named.length : key + 1) - 2)).join(':')
}

export const count = (number, one, many = `${one}s`) => `${grouped(number)} ${number === 1 ? one : many}`

/** A code of the server ("foreign_nonce_use") in words. */
export const words = code => String(code).replaceAll('_', ' ')

/** A whole number of a chain's smallest unit as coins. What is cut off ends in "…". */
export function coins(amount, unit, decimals = 6) {
  if (!unit?.coin || amount === undefined || amount === null) return grouped(amount)
  const negative = String(amount).startsWith('-')
  const digits = String(amount).replace('-', '').padStart(unit.decimals + 1, '0')
  const whole = digits.slice(0, -unit.decimals)
  const part = digits.slice(-unit.decimals).replace(/0+$/, '')
  if (!negative && /^0*$/.test(whole + part.slice(0, decimals)) && part) return `< 0.${'1'.padStart(decimals, '0')} ${unit.coin}`
  const shown = part.length > decimals ? `${part.slice(0, decimals)}…` : part
  return `${negative ? '−' : ''}${grouped(whole)}${shown && `.${shown}`} ${unit.coin}`
}
