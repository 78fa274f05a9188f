import type { OrderOptions } from './order.ts'
import type { TableOptions } from './tables.ts'

/** What a database is made with once, instead of each of its functions. */
export interface FromOptions extends TableOptions, OrderOptions {}
