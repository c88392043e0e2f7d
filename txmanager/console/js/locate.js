// Where an intent is, by its key alone. A token of all tenants has to say whose it means: each is asked in turn.
import { Problem, call, intentPath } from './api.js'
import { session } from './session.js'

/** `{key, pool, tenant}` for its page, or null. */
export async function locate(key, pool) {
  const { tenant, tenants } = session.value.who
  for (const whose of tenant === '*' && tenants.length > 1 ? tenants : [undefined]) {
    try {
      const record = await call('GET', intentPath(key), { query: { pool, tenant: whose } })
      return { key, pool: record.pool, tenant: whose }
    } catch (error) {
      if (!(error instanceof Problem) || ![404, 422].includes(error.status)) throw error
    }
  }
  return null
}
