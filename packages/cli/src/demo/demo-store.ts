import type { RedisStore, SqlStore, Store } from '../stores/store.ts'

/** Where the demo keeps its orders: beside Ackord's tables or keys, under names of this run. */
export interface DemoStore {
  create(): Promise<void>
  /** In the transaction of the message that is being handled. Nothing would keep the same order from being there twice. */
  saveOrder(id: string): Promise<void>
  /** The ids of all orders that are there, each as often as it is. */
  orders(): Promise<readonly string[]>
  /** Removes everything of this run. Idempotent. */
  remove(): Promise<void>
}

export function demoStore(store: Store): DemoStore {
  return store.kind === 'redis' ? onRedis(store) : onSql(store)
}

function onSql(store: SqlStore): DemoStore {
  const orders = store.table('orders')
  const isPostgres = store.kind === 'postgres' || store.kind === 'pglite'
  // MySQL may be set up to want a primary key.
  const key = store.kind === 'mysql' ? 'seq BIGINT AUTO_INCREMENT PRIMARY KEY, ' : ''
  const insert = `INSERT INTO ${orders} (id) VALUES (${isPostgres ? '$1' : '?'})`
  return {
    async create() {
      await store.createSchema()
      await store.define(`CREATE TABLE ${orders} (${key}id VARCHAR(40) NOT NULL)`)
    },
    saveOrder: (id) => store.change(insert, [id]),
    async orders() {
      const rows = await store.query(`SELECT id FROM ${orders}`)
      return rows.map((row) => String(row['id']))
    },
    async remove() {
      for (const name of tableNames) await store.define(`DROP TABLE IF EXISTS ${store.table(name)}`)
      if (!isPostgres) return
      for (const name of ['append', 'keep', 'valid']) await store.define(`DROP FUNCTION IF EXISTS ${store.table(name)}`)
    },
  }
}

/** The last is MySQL's own. */
const tableNames = ['orders', 'inbox', 'outbox', 'hands', 'partitions', 'relays', 'meta', 'outbox_locks']

function onRedis(store: RedisStore): DemoStore {
  const orders = `{${store.tag}}:orders`
  return {
    create: () => Promise.resolve(),
    saveOrder: (id) => store.push(orders, id),
    async orders() {
      return (await store.send('LRANGE', orders, 0, -1)) as string[]
    },
    remove: () => store.removeKeys(`{${store.tag}}`),
  }
}
