import { integer, pgTable, text } from 'drizzle-orm/pg-core'

export const stock = pgTable('stock', { product: text().primaryKey(), available: integer().notNull() })

export const orders = pgTable('orders', { id: text().primaryKey(), product: text().notNull(), quantity: integer().notNull() })

/** Has no key on purpose: an event that is handled twice would show as two rows. */
export const invoices = pgTable('invoices', { orderId: text('order_id').notNull(), quantity: integer().notNull() })
