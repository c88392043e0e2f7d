// The one table. Only the rows in sight are in the page, so that 1,000 lanes and 100,000 intents cost the same as ten.
// A column is `{name, title, cell(row), width, right, wide}`; `wide` ones leave on a narrow screen.
import { html, useEffect, useRef, useState } from '../../vendor/preact.js'

const ROW_PX = 36
const AROUND = 8

export function Table({ label, columns, rows, keyOf, open, empty, tall = 24, end }) {
  const box = useRef(null)
  const [top, setTop] = useState(0)
  const [at, setAt] = useState(-1)
  const fits = Math.min(rows.length, tall)
  const first = Math.max(0, Math.floor(top / ROW_PX) - AROUND)
  const last = Math.min(rows.length, first + tall + 2 * AROUND)

  useEffect(() => {
    if (at < 0 || !box.current) return
    const low = at * ROW_PX
    const high = low + ROW_PX - box.current.clientHeight
    if (box.current.scrollTop > low) box.current.scrollTop = low
    else if (box.current.scrollTop < high) box.current.scrollTop = high
  }, [at])

  if (!rows.length) return empty
  const move = event => {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: tall, PageUp: -tall, Home: -rows.length, End: rows.length }[event.key]
    if (step) {
      event.preventDefault()
      setAt(Math.max(0, Math.min(rows.length - 1, at + step)))
    } else if (event.key === 'Enter' && at >= 0 && open && event.target === event.currentTarget) open(rows[at])
  }
  const scrolled = event => {
    setTop(event.currentTarget.scrollTop)
    if (end && event.currentTarget.scrollTop + event.currentTarget.clientHeight > (rows.length - AROUND) * ROW_PX) end()
  }
  const sizes = shown => shown.map(column => column.width ?? 'minmax(0, 1fr)').join(' ')
  const style = { '--columns': sizes(columns), '--narrow-columns': sizes(columns.filter(column => !column.wide)) }
  const cells = (role, content) => columns.map(column => html`<div key=${column.name} role=${role}
    class=${`cell${column.right ? ' right' : ''}${column.wide ? ' wide' : ''}`}>${content(column)}</div>`)

  return html`<div class="table" role="table" aria-label=${label} aria-rowcount=${rows.length + 1} style=${style}>
    <div role="rowgroup"><div class="row table-head" role="row" aria-rowindex="1">${cells('columnheader', column => column.title)}</div></div>
    <div class="table-body" role="rowgroup" ref=${box} tabindex="0" aria-label=${`${label}: rows`}
      style=${{ height: `${fits * ROW_PX}px` }} onScroll=${scrolled} onKeyDown=${move}>
      <div role="presentation" style=${{ height: `${rows.length * ROW_PX}px`, position: 'relative' }}>
        ${rows.slice(first, last).map((row, n) => html`<div key=${keyOf(row)} role="row" aria-rowindex=${first + n + 2}
          class=${`row${open ? ' opens' : ''}${first + n === at ? ' at' : ''}`}
          style=${{ transform: `translateY(${(first + n) * ROW_PX}px)` }}
          onClick=${open && (event => event.target.closest('a, button, input') || open(row))}>
          ${cells('cell', column => column.cell(row))}
        </div>`)}
      </div>
    </div>
  </div>`
}
