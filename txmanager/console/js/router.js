// The URL is the state: a page's name is its path, its filters are its query. A link is an ordinary link.
import { html } from '../vendor/preact.js'
import { queryText } from './api.js'
import { observable } from './observable.js'

const ROOT = '/console'

const here = () => ({
  page: location.pathname.slice(ROOT.length).replace(/^\/+|\/+$/g, '') || 'overview',
  query: Object.fromEntries(new URLSearchParams(location.search)),
})

export const place = observable(here())

addEventListener('popstate', () => place.set(here()))

export const hrefOf = (page, query) => `${ROOT}${page === 'overview' ? '' : `/${page}`}${queryText(query)}`

export function go(page, query, { replace = false } = {}) {
  const moved = place.value.page !== page
  history[replace ? 'replaceState' : 'pushState'](null, '', hrefOf(page, query))
  place.set(here())
  if (moved) scrollTo(0, 0)
}

/** Change some filters of this page; an empty one leaves the URL. */
export const refine = changes => go(place.value.page, { ...place.value.query, ...changes }, { replace: true })

export function Link({ page, query, children, ...more }) {
  const follow = event => {
    if (event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return
    event.preventDefault()
    go(page, query)
  }
  return html`<a href=${hrefOf(page, query)} onClick=${follow} ...${more}>${children}</a>`
}
