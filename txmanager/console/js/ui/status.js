// A status is a word, a colour and a shape: no one of them alone carries it.
import { html } from '../../vendor/preact.js'

const RING = 'M6 1.8a4.2 4.2 0 1 0 0 8.4a4.2 4.2 0 1 0 0-8.4z'
const SHAPES = {
  ring: html`<path d=${RING} class="stroke" />`,
  half: html`<g><path d=${RING} class="stroke" /><path d="M6 1.8a4.2 4.2 0 0 1 0 8.4z" /></g>`,
  check: html`<path d="M2 6.4l2.8 2.8L10 3.4" class="stroke" />`,
  cross: html`<path d="M2.5 2.5l7 7M9.5 2.5l-7 7" class="stroke" />`,
  dash: html`<path d="M2 6h8" class="stroke" />`,
  triangle: html`<path d="M6 1.2L11.2 10.6H.8z" />`,
  bars: html`<path d="M3 1.8v8.4M9 1.8v8.4" class="stroke" />`,
  dot: html`<circle cx="6" cy="6" r="4.2" />`,
  down: html`<path d="M6 1.5v8M2.5 6.5L6 10l3.5-3.5" class="stroke" />`,
  square: html`<path d="M2 2h8v8H2z" />`,
}
const LOOKS = {
  queued: ['ring', 'quiet'],
  inflight: ['half', 'busy'],
  done: ['check', 'good'],
  failed: ['cross', 'bad'],
  cancelled: ['dash', 'quiet'],
  held: ['triangle', 'warn'],
  active: ['dot', 'good'],
  draining: ['down', 'busy'],
  paused: ['bars', 'warn'],
  quarantined: ['triangle', 'bad'],
  closed: ['square', 'quiet'],
  ok: ['check', 'good'],
  degraded: ['triangle', 'warn'],
  refused: ['cross', 'bad'],
  accepted: ['ring', 'quiet'],
  signed: ['half', 'busy'],
  dead: ['cross', 'bad'],
}

export function Status({ of, word = of, title }) {
  const [shape, tone] = LOOKS[of] ?? ['ring', 'quiet']
  return html`<span class=${`status tone-${tone}`} title=${title}>
    <svg viewBox="0 0 12 12" aria-hidden="true">${SHAPES[shape]}</svg>${word}
  </span>`
}

export function Mark({ of }) {
  const [shape, tone] = LOOKS[of] ?? ['ring', 'quiet']
  return html`<svg class=${`mark tone-${tone}`} viewBox="0 0 12 12" aria-hidden="true">${SHAPES[shape]}</svg>`
}
