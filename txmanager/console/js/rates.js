// Speeds, measured from what the stream tells while the page is open: landed per lane, ends and latencies over time.
// With an archive the ten minutes before are read from it once. A time that nobody saw is a gap, and no zero.
import { call } from './api.js'
import { clockAhead, lanes, link, onLook } from './live.js'
import { observable } from './observable.js'

const WINDOW_MS = 10_000
const BUCKET_MS = 5_000
const BUCKETS = 120
const FEWEST = 24
const TICK_MS = 2_000
const TOLD_WITHIN_MS = 1_500
const MOST_OPEN = 20_000
const SEED = 500
const ENDED = ['done', 'failed', 'cancelled']

/** Landed per second by lane, over the last ten seconds. */
export const rates = observable(new Map())
/** Up to ten minutes of `{at, done, failed, median, p95}`; null where this page did not look, or nothing ended. */
export const throughput = observable([])

const landed = new Map() // lane -> [[at, highest final nonce], ...] of the window
const accepted = new Map() // intent -> when its `queued` was seen
const buckets = new Map() // start -> {done, failed, took: []}
const watched = new Set() // starts of buckets that were seen from beginning to end
let watchedSince = null
let seeded = false

const nameOf = event => `${event.tenant ?? ''}/${event.pool}/${event.idempotency_key}`
const startOf = at => Math.floor(at / BUCKET_MS) * BUCKET_MS

onLook(look => {
  if (look.away) watchedSince = null
  else if (look.missed || watchedSince === null) watchedSince = look.at // whatever was before is not known
  if (!seeded && look.all && look.at) {
    seeded = true
    seed(look.at).then(() => draw(look.at), () => {}) // without it the chart begins now
  }
  for (const lane of look.lanes) {
    if (lane.landed === null) continue
    const samples = landed.get(lane.lane) ?? []
    samples.push([look.at, lane.landed])
    landed.set(lane.lane, samples)
  }
  for (const event of look.events) {
    const name = nameOf(event)
    const at = Date.parse(event.at)
    if (event.status === 'queued') {
      accepted.set(name, at)
      if (accepted.size > MOST_OPEN) accepted.delete(accepted.keys().next().value)
    } else if (ENDED.includes(event.status)) {
      ended(event.status, at, accepted.get(name))
      accepted.delete(name)
    }
  }
})

link.subscribe(({ state }) => { if (state !== 'live') watchedSince = null })

function ended(status, at, since) {
  const start = startOf(at)
  const bucket = buckets.get(start) ?? { done: 0, failed: 0, took: [] }
  buckets.set(start, bucket)
  if (status in bucket) bucket[status] += 1
  if (since !== undefined) bucket.took.push(at - since)
}

/** What ended shortly before `until`, as far back as the newest page of the archive goes. */
async function seed(until) {
  let from = until - BUCKETS * BUCKET_MS
  const found = []
  for (const status of ['done', 'failed']) {
    const query = { status, since: new Date(from).toISOString(), limit: SEED }
    const { intents, archived, cursor } = await call('GET', '/v1/intents', { query })
    if (!archived) return
    if (cursor && intents.length) from = Math.max(from, Date.parse(intents.at(-1).created_at))
    found.push(...intents)
  }
  for (const { status, created_at: since, updated_at: at } of found) {
    if (Date.parse(at) >= from && Date.parse(at) < until) ended(status, Date.parse(at), Date.parse(since))
  }
  for (let at = startOf(from) + BUCKET_MS; at <= startOf(until); at += BUCKET_MS) watched.add(at)
}

setInterval(() => document.hidden || draw(Date.now() + clockAhead), TICK_MS)

function draw(now) {
  const next = new Map()
  for (const [lane, samples] of landed) {
    while (samples.length > 1 && samples[1][0] < now - WINDOW_MS) samples.shift()
    const [first, last] = [samples[0], samples.at(-1)]
    const landing = last[0] > first[0] && last[0] > now - WINDOW_MS ? ((last[1] - first[1]) * 1000) / WINDOW_MS : 0
    if (landing > 0) next.set(lane, landing)
    if (!lanes.value.has(lane)) landed.delete(lane)
  }
  if (next.size || rates.value.size) rates.set(next)
  const newest = startOf(now - TOLD_WITHIN_MS) - BUCKET_MS // the last one that is over: half a bucket looks like a drop
  const oldest = newest - (BUCKETS - 1) * BUCKET_MS
  const since = watchedSince === null ? now : Math.max(oldest, startOf(watchedSince) + BUCKET_MS)
  for (let at = since; at <= newest; at += BUCKET_MS) watched.add(at)
  for (const kept of [watched, buckets]) for (const at of kept.keys()) if (at < oldest) kept.delete(at)
  if (!watched.size) return
  const series = []
  for (let at = Math.max(oldest, Math.min(...watched, newest - (FEWEST - 1) * BUCKET_MS)); at <= newest; at += BUCKET_MS) series.push(pointOf(at))
  throughput.set(series)
}

function pointOf(at) {
  const { done = 0, failed = 0, took = [] } = buckets.get(at) ?? {}
  const seen = watched.has(at)
  const sorted = [...took].sort((a, b) => a - b)
  const percentile = share => (seen && sorted.length ? sorted[Math.floor(sorted.length * share)] : null)
  return {
    at, done: seen ? (done * 1000) / BUCKET_MS : null, failed: seen ? (failed * 1000) / BUCKET_MS : null,
    median: percentile(0.5), p95: percentile(0.95),
  }
}
