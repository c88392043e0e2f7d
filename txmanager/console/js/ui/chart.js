// A small chart over time: lines of one unit, the value under the pointer in words. Plain SVG.
import { html, useState } from '../../vendor/preact.js'
import { exact, span } from '../format.js'

const WIDE = 600
const HIGH = 120
const LEFT = 4

/** Whether a point has no neighbour to draw a line to. */
const alone = (points, n) => points[n][1] !== null && (points[n - 1]?.[1] ?? null) === null && (points[n + 1]?.[1] ?? null) === null

/** `series` are `{name, tone, points: [[at, value | null], ...]}`, all with the same times. */
export function Chart({ label, series, format, empty }) {
  const [under, setUnder] = useState(null)
  const times = series[0].points.map(([at]) => at)
  const values = series.flatMap(one => one.points.map(([, value]) => value)).filter(value => value !== null)
  if (values.length < 2) return html`<div class="chart-empty faint">${empty}</div>`
  const most = Math.max(...values) || 1
  const x = n => LEFT + (n / Math.max(1, times.length - 1)) * (WIDE - 2 * LEFT)
  const y = value => HIGH - 6 - (value / most) * (HIGH - 22)
  const path = points => {
    let pen = 'M'
    return points.map(([, value], n) => {
      if (value === null) { pen = 'M'; return '' }
      const step = `${pen}${x(n).toFixed(1)} ${y(value).toFixed(1)}`
      pen = 'L'
      return step
    }).join('')
  }
  const look = event => {
    const box = event.currentTarget.getBoundingClientRect()
    const n = Math.round(((event.clientX - box.left) / box.width) * (times.length - 1))
    setUnder(Math.max(0, Math.min(times.length - 1, n)))
  }
  const newest = times.findLastIndex((_, n) => series.some(one => one.points[n][1] !== null))
  const n = under ?? newest // where nothing ended the line before it still tells something
  return html`<figure class="chart">
    <figcaption>
      ${series.map(one => html`<span key=${one.name} class=${`tone-${one.tone}`}><i></i>${one.name}${' '}
        <b>${one.points[n][1] === null ? '–' : format(one.points[n][1])}</b></span>`)}
      <span class="faint push">${under === null ? '' : exact(times[n]).slice(11, 19)}</span>
    </figcaption>
    <svg viewBox=${`0 0 ${WIDE} ${HIGH}`} preserveAspectRatio="none" role="img" aria-label=${label}
      onMouseMove=${look} onMouseLeave=${() => setUnder(null)}>
      <line class="axis" x1="0" x2=${WIDE} y1=${HIGH - 6} y2=${HIGH - 6} />
      <line class="axis" x1="0" x2=${WIDE} y1=${y(most)} y2=${y(most)} />
      ${series.map(one => html`<path key=${one.name} class=${`line tone-${one.tone}`} d=${path(one.points)} />`)}
      ${series.map(one => one.points.map(([, value], n) => alone(one.points, n) && html`<path key=${`${one.name} ${n}`}
        class=${`line dot tone-${one.tone}`} d=${`M${x(n)} ${y(value)}h0.01`} />`))}
      ${under !== null && html`<line class="pointer" x1=${x(n)} x2=${x(n)} y1="0" y2=${HIGH} />`}
    </svg>
    <div class="chart-scale faint"><span>${span(times.at(-1) - times[0])} ago</span><span>at most ${format(most)}</span><span>now</span></div>
  </figure>`
}
