// @ts-check
// For each store: a database of its own on the server, and what a service has left in it.
import { join } from 'node:path'
import { DatabaseSync } from '@photostructure/sqlite'
import { createConnection } from 'mysql2/promise'
import pg from 'pg'
import { createClient } from 'redis'

/**
 * @typedef {object} OpenStore
 * @property {Readonly<Record<string, string>>} environment
 * @property {() => Promise<readonly { id: string, total: number }[]>} orders
 * @property {() => Promise<void>} remove
 */

/** @typedef {(name: string, folder: string) => Promise<OpenStore>} OpenStoreFunction */

const redisUrl = process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379'

/** @param {string} url @param {string} name */
function inDatabase(url, name) {
  const other = new URL(url)
  other.pathname = `/${name}`
  return other.href
}

/** @type {OpenStoreFunction} */
async function openPostgres(name) {
  const url = process.env['POSTGRES_URL'] ?? 'postgres://postgres@127.0.0.1:5432/test'
  const server = new pg.Client(url)
  await server.connect()
  await server.query(`CREATE DATABASE ${name}`)
  const own = inDatabase(url, name)
  return {
    environment: { POSTGRES_URL: own },
    async orders() {
      const client = new pg.Client(own)
      await client.connect()
      try {
        return (await client.query('SELECT id, total FROM orders')).rows
      } finally {
        await client.end()
      }
    },
    async remove() {
      await server.query(`DROP DATABASE ${name} WITH (FORCE)`)
      await server.end()
    },
  }
}

/** @type {OpenStoreFunction} */
async function openMysql(name) {
  const url = process.env['MARIADB_URL'] ?? 'mysql://root@127.0.0.1:3306/test'
  const server = await createConnection(url)
  await server.query(`CREATE DATABASE ${name}`)
  const own = inDatabase(url, name)
  return {
    environment: { MYSQL_URL: own, MARIADB_URL: own },
    async orders() {
      const [rows] = await server.query(`SELECT id, total FROM ${name}.orders`)
      return /** @type {{ id: string, total: number }[]} */ (rows)
    },
    async remove() {
      await server.query(`DROP DATABASE ${name}`)
      await server.end()
    },
  }
}

/** @type {OpenStoreFunction} */
async function openSqlite(name, folder) {
  const file = join(folder, `${name}.db`)
  return {
    environment: { SQLITE_FILE: file },
    async orders() {
      const database = new DatabaseSync(file)
      const rows = database.prepare('SELECT id, total FROM orders').all()
      database.close()
      return /** @type {{ id: string, total: number }[]} */ (rows)
    },
    async remove() {},
  }
}

/** @type {OpenStoreFunction} */
async function openRedis(name) {
  const client = await createClient({ url: redisUrl }).connect()
  return {
    environment: { REDIS_URL: redisUrl },
    async orders() {
      const prefix = `{${name}}:order:`
      const keys = await client.keys(`${prefix}*`)
      return await Promise.all(keys.map(async (key) => ({ id: key.slice(prefix.length), total: Number(await client.hGet(key, 'total')) })))
    },
    async remove() {
      client.destroy()
      await removeRedisKeys(name)
    },
  }
}

/** The streams and keys of a service on Redis. @param {string} name */
export async function removeRedisKeys(name) {
  const client = await createClient({ url: redisUrl }).connect()
  for await (const keys of client.scanIterator({ MATCH: `*${name}*`, COUNT: 1000 })) if (keys.length > 0) await client.del(keys)
  client.destroy()
}

/** @type {Readonly<Record<string, OpenStoreFunction>>} */
export const openStore = { postgres: openPostgres, mysql: openMysql, sqlite: openSqlite, redis: openRedis }
