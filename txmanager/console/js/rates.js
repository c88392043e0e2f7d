// Speeds, measured from what the stream tells while the page is open: landed per lane, ends and latencies over time.
import { lanes, onLook } from './live.js'
import { observable } from './observable.js'

const WINDOW_MS = 10_000
const BUCKET_MS = 10_000
const BUCKETS = 60
const FEWEST = 18
const MOST_OPEN = 20_000

/** Landed per second by lane, over the last ten seconds. */
export const rates = observable(new Map())
/** Up to ten minutes of `{at, done, failed, median, p95}`; null where nothing ended. */
export const throughput = observable([])

const landed = new Map() // lane -> [[at, count of nonces], ...] of the window
const accepted = new Map() // intent -> when its `queued` was seen
const buckets = new Map() // start -> {done, failed, took: []}

const nameOf = event => `${event.tenant ?? ''}/${event.pool}/${event.idempotency_key}`

onLook(look => {
  for (const lane of look.lanes) {
    if (lane.landed === null) continue
    const samples = landed.get(lane.lane) ?? []
    samples.push([look.at, lane.landed])
    landed.set(lane.lane, samples)
  }
  for (const event of look.events) {
    const at = Date.parse(event.at)
    const name = nameOf(event)
    if (event.status === 'queued') {
      accepted.set(name, at)
      if (accepted.size > MOST_OPEN) accepted.delete(accepted.keys().next().value)
    } else if (['done', 'failed', 'cancelled'].includes(event.status)) {
      const start = Math.floor(at / BUCKET_MS) * BUCKET_MS
      const bucket = buckets.get(start) ?? { done: 0, failed: 0, took: [] }
      buckets.set(start, bucket)
      if (event.status in bucket) bucket[event.status] += 1
      if (accepted.has(name)) bucket.took.push(at - accepted.get(name))
      accepted.delete(name)
    }
  }
})

setInterval(() => {
  if (document.hidden) return
  draw(Date.now())
}, 2000)

/** Null before this page saw anything: nobody knows whether nothing ended then. */
const perSecond = (ended, seen) => (seen ? (ended ?? 0) / (BUCKET_MS / 1000) : null)

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
  if (!buckets.size) return
  const end = Math.floor(now / BUCKET_MS) * BUCKET_MS
  const series = []
  const first = Math.min(...buckets.keys()) - BUCKET_MS
  const start = Math.max(end - (BUCKETS - 1) * BUCKET_MS, Math.min(first, end - (FEWEST - 1) * BUCKET_MS))
  for (let at = start; at <= end; at += BUCKET_MS) {
    const bucket = buckets.get(at)
    const took = bucket ? bucket.took.sort((a, b) => a - b) : []
    series.push({
      at,
      done: perSecond(bucket?.done, at > first),
      failed: perSecond(bucket?.failed, at > first),
      median: took.length ? took[Math.floor(took.length / 2)] : null,
      p95: took.length ? took[Math.floor(took.length * 0.95)] : null,
    })
  }
  for (const at of buckets.keys()) if (at < end - BUCKETS * BUCKET_MS) buckets.delete(at)
  throughput.set(series)
}
